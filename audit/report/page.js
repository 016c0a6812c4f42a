(() => {
  "use strict";
  const list = document.querySelector("nav[aria-label=Contents] ul");
  const links = list ? [...list.querySelectorAll("a")] : [];
  const sections = links.map((link) => document.getElementById(link.hash.slice(1)).closest("section"));
  let current = null;
  let waiting = false;

  // The section one is in: the last one that begins above the line beneath the contents, which stay in sight.
  function mark() {
    waiting = false;
    const line = list.parentElement.getBoundingClientRect().bottom + 24;
    const atEnd = innerHeight + scrollY >= document.documentElement.scrollHeight - 2;
    let place = sections.findLastIndex((section) => section.getBoundingClientRect().top <= line);
    if (atEnd && scrollY > 0) place = sections.length - 1;
    const link = links[Math.max(place, 0)];
    if (link === current) return;
    if (current) current.removeAttribute("aria-current");
    link.setAttribute("aria-current", "location");
    current = link;
    list.scrollLeft = link.offsetLeft - list.offsetLeft - (list.clientWidth - link.offsetWidth) / 2;
  }

  if (links.length) {
    const soon = () => {
      if (!waiting) requestAnimationFrame(mark);
      waiting = true;
    };
    addEventListener("scroll", soon, { passive: true });
    addEventListener("resize", soon);
    mark();
  }

  // What is wider than its box says that it scrolls.
  const boxes = new ResizeObserver((all) => {
    for (const { target } of all) target.classList.toggle("scrolls", target.scrollWidth > target.clientWidth + 1);
  });
  for (const box of document.querySelectorAll(".scroll")) boxes.observe(box);

  // What a marked term means is shown beside it.
  const tip = document.createElement("div");
  tip.id = "tip";
  tip.hidden = true;
  document.body.append(tip);
  function explain(event) {
    const term = event.target.closest && event.target.closest("dfn[aria-describedby]");
    tip.hidden = !term || event.key === "Escape";
    if (tip.hidden) return;
    tip.textContent = document.getElementById(term.getAttribute("aria-describedby")).textContent;
    const box = term.getBoundingClientRect();
    tip.style.top = `${box.bottom + scrollY + 4}px`;
    tip.style.left = `${Math.max(8, Math.min(box.left, document.documentElement.clientWidth - tip.offsetWidth - 8))}px`;
  }
  for (const kind of ["mouseover", "focusin", "click", "keydown"]) document.addEventListener(kind, explain);

  // A link into what is folded unfolds it.
  function unfold() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const folded = target && target.closest("details");
    if (!folded || folded.open) return;
    for (let each = folded; each; each = each.parentElement.closest("details")) each.open = true;
    target.scrollIntoView();
  }
  addEventListener("hashchange", unfold);
  unfold();

  // Paper has nothing to unfold; not every browser does this by the style sheet.
  const closed = [];
  addEventListener("beforeprint", () => {
    closed.push(...document.querySelectorAll("main details:not([open])"));
    for (const each of closed) each.open = true;
  });
  addEventListener("afterprint", () => {
    for (const each of closed.splice(0)) each.open = false;
  });

  const button = document.getElementById("print-summary");
  if (button) {
    button.disabled = false;
    button.addEventListener("click", () => {
      document.documentElement.classList.add("summary-alone");
      addEventListener("afterprint", () => document.documentElement.classList.remove("summary-alone"), { once: true });
      print();
    });
  }
})();
