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
