(() => {
  "use strict";
  const filters = document.getElementById("filters");
  if (!filters) return;
  const status = document.getElementById("filter-status");
  const text = document.getElementById("filter-text");
  const choices = { dimension: document.getElementById("filter-dimension"), verdict: document.getElementById("filter-verdict") };
  const groups = [...document.querySelectorAll("tbody.group")];
  const rowsOf = (group) => [...group.rows].filter((row) => row.dataset.text !== undefined);
  const rows = groups.flatMap(rowsOf);
  const said = (number) => `${number} of ${rows.length} ${rows.length === 1 ? "gap" : "gaps"} shown`;

  function filter() {
    const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const fits =
        words.every((word) => row.dataset.text.includes(word)) &&
        Object.entries(choices).every(([name, choice]) => !choice.value || choice.value === `=${row.dataset[name]}`);
      row.hidden = !fits;
      shown += fits;
    }
    for (const group of groups) group.hidden = rowsOf(group).every((row) => row.hidden);
    if (shown < rows.length) for (const each of document.querySelectorAll(".measures")) each.open = true;
    status.textContent = said(shown);
  }

  // What is missing stands last, whichever way a column is sorted.
  function compare(one, other, kind, way) {
    if (!one || !other) return (one ? 0 : 1) - (other ? 0 : 1);
    return way * (kind === "number" ? Number(one) - Number(other) : one.localeCompare(other, "en", { numeric: true }));
  }

  function sort(table, heads, place) {
    const now = heads[place].getAttribute("aria-sort");
    const next = now === "ascending" ? "descending" : now === "descending" ? null : "ascending";
    for (const head of heads) head.removeAttribute("aria-sort");
    if (next) heads[place].setAttribute("aria-sort", next);
    const by = (row) => row.cells[place].dataset.by;
    const way = next === "descending" ? -1 : 1;
    // Only gaps of one group may be compared, so that each is sorted by itself.
    for (const group of table.tBodies) {
      const own = rowsOf(group);
      own.sort((one, other) =>
        next ? compare(by(one), by(other), heads[place].dataset.kind, way) || one.dataset.place - other.dataset.place
             : one.dataset.place - other.dataset.place,
      );
      group.append(...own);
    }
  }

  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    [...table.tBodies].flatMap(rowsOf).forEach((row, place) => (row.dataset.place = place));
    heads.forEach((head, place) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.textContent = head.textContent;
      button.addEventListener("click", () => sort(table, heads, place));
      head.replaceChildren(button);
    });
  }
  text.addEventListener("input", filter);
  for (const choice of Object.values(choices)) choice.addEventListener("change", filter);
  document.getElementById("filter-reset").addEventListener("click", () => {
    text.value = "";
    for (const choice of Object.values(choices)) choice.value = "";
    filter();
    text.focus();
  });
  // On a phone, what is filtered comes first, and the filters are a tap away.
  filters.open = window.matchMedia("(min-width: 32.01rem)").matches;
  filters.hidden = false;
  filter();
})();
