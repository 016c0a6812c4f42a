(() => {
  "use strict";
  const PAGE = 50;
  const KINDS = ["in-group", "out-group", "baseline"];
  const KIND_WORDS = ["in-group pair", "out-group pair", "pair with a baseline, no part of δ"];

  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  };
  const button = (text, act, attributes = {}) => {
    const element = make("button", { type: "button", ...attributes }, text);
    element.addEventListener("click", act);
    return element;
  };
  const count = (n) => n.toLocaleString("en");

  // --- Reading the packed text

  const unpack = (table) => {
    const n = table.n.reduce((sum, size) => sum + size, 0);
    const start = new Int32Array(table.n.length + 1);
    table.n.forEach((size, group) => { start[group + 1] = start[group] + size; });
    const group = new Int32Array(n);
    table.n.forEach((_, at) => group.fill(at, start[at], start[at + 1]));
    const columns = {};
    for (const [name, { of, codes }] of Object.entries(table.columns)) {
      const code = codes ? Int32Array.from(codes) : new Int32Array(n);
      columns[name] = { of, code, get: (row) => (of ? of[code[row]] : code[row]) };
    }
    return { n, start, group, ...columns };
  };

  const read = async (text) => {
    const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    const raw = await new Response(unpacked).json();
    for (const name of ["cells", "emotions", "ratings", "calls", "contrasts"]) raw[name] &&= unpack(raw[name]);
    return raw;
  };

  let store; // what was read, from the start on

  // --- One rating in full

  // A long text comes as its beginning and a note of where it was cut.
  const put = (place, text) => {
    if (Array.isArray(text)) place.append(text[0], make("em", {}, ` [${text[1]}]`));
    else place.append(text);
    return place;
  };
  const whole = (text) => (Array.isArray(text) ? text[0] : text);
  const message = (heading, fill, none) => {
    const pre = make("pre", { dir: "auto" });
    fill(pre);
    const shown = pre.textContent ? pre : make("p", {}, make("em", {}, none));
    return [make("p", { class: "role" }, heading), shown];
  };
  const fact = (name, value) => make("div", {}, make("dt", {}, name), make("dd", {}, value));

  // A message without what it shares with others: the narrative, and what calls before it wrote.
  const putFrame = (pre, frame, narrative, written) => {
    put(pre, frame[0]);
    for (let at = 1; at < frame.length; at += 2) {
      const what = frame[at + 1];
      if (what < -1) put(pre, written(-2 - what));
      else if (what >= 0) put(pre, Array.isArray(narrative) ? [narrative[0].slice(what), narrative[1]] : narrative.slice(what));
      put(pre, frame[at]);
    }
  };
  const noted = (note) => (note ? [" ", make("em", {}, `(${note})`)] : []);

  const stepsOf = (from, to, narrative, written) => {
    const { calls } = store;
    const steps = make("ol", { class: "calls" });
    for (let at = from; at < to; at++) {
      const system = calls.system.get(at);
      const text = calls.written.get(at);
      steps.append(make("li", {}, make("details", {},
        make("summary", {}, make("bdi", {}, calls.name.get(at)), ...noted(calls.note.get(at)),
          make("bdi", { class: "gist" }, whole(text).slice(0, 200))),
        ...(system === null ? [] : message("system", (pre) => put(pre, system), "no system message")),
        ...message("user", (pre) => putFrame(pre, calls.frame.get(at), narrative, written), "not asked"),
        ...message(calls.example.get(at) ? "shown as the model's answer" : "the model wrote", (pre) => put(pre, text), "no text"))));
    }
    return steps;
  };

  const inFull = (row) => {
    const { ratings, narratives, calls, first, missing } = store;
    const narrative = narratives[ratings.narrative.get(row)];
    const facts = make("dl", {}, fact("status", ratings.status.get(row)), fact("intensity", ratings.intensity.get(row)));
    if (ratings.number_mass.get(row) !== missing) {
      facts.append(fact("number mass", ratings.number_mass.get(row)), fact("most probable number", ratings.mode.get(row)));
    }
    facts.append(fact("prompt_index", String(first[ratings.group[row]] + ratings.offset.get(row))));
    const shown = make("div", { class: "rating" }, facts);
    if (ratings.frame) {
      const text = narrative[2];
      const talk = calls ? ratings.calls.get(row) : 0;
      const [from, to] = calls ? calls.start.subarray(talk, talk + 2) : [0, 0];
      const written = (place) => calls.written.get(from + place);
      const of = to > from ? "the question: " : "";
      const note = noted(ratings.note?.get(row));
      shown.append(...message("narrative", (pre) => put(pre, text), "empty"));
      if (of) shown.append(make("p", { class: "role" }, "before the question", ...note), stepsOf(from, to, text, written));
      shown.append(
        ...message(`${of}system`, (pre) => put(pre, ratings.system.get(row)), "no system message"),
        ...message(`${of}user`, (pre) => putFrame(pre, ratings.frame.get(row), text, written), "no user message"),
      );
    }
    shown.append(...message("response", (pre) => put(pre, ratings.response.get(row)), "no text was recorded"));
    return shown;
  };

  // --- A list in pages, sorted by a click on a column

  const sorted = (rows, column, down) => {
    const n = rows.length;
    const { of, code } = column;
    const top = of ? of.length : column.top;
    const none = of && of[top - 1] === store.missing ? top - 1 : -1;
    const keys = new Float64Array(n);
    for (let i = 0; i < n; i++) {
      const value = code(rows[i]);
      keys[i] = (value === none ? top : down ? top - value : value) * n + i; // what is missing stays last
    }
    return Int32Array.from(keys.sort(), (key) => rows[key % n]);
  };

  const list = (root, caption, noun, columns, fillFirst) => {
    const head = make("tr");
    const body = make("tbody");
    const said = make("p", { role: "status" });
    const state = { rows: new Int32Array(0), ordered: null, by: null, down: false, page: 0 };
    const turn = (by) => { state.page += by; draw(); };
    const previous = button("Previous", () => turn(-1));
    const next = button("Next", () => turn(1));
    const draw = () => {
      const { page, by } = state;
      state.ordered ??= by ? sorted(state.rows, by, state.down) : state.rows;
      const n = state.ordered.length;
      const from = page * PAGE;
      const shown = state.ordered.subarray(from, from + PAGE);
      body.replaceChildren(...Array.from(shown, (row) => {
        const line = make("tr");
        columns.forEach((column, at) => {
          const text = column.text(row);
          if (at) line.append(make("td", column.number ? { class: "number" } : {}, make("bdi", {}, text)));
          else line.append(make("th", { scope: "row" }, fillFirst(row, text, line)));
        });
        return line;
      }));
      said.textContent = n
        ? `${count(from + 1)}–${count(from + shown.length)} of ${count(n)} ${noun}${n === 1 ? "" : "s"} in this file`
        : `0 ${noun}s in this file match`;
      previous.disabled = page === 0;
      next.disabled = from + PAGE >= n;
      [...head.children].forEach((cell, at) => {
        cell.setAttribute("aria-sort", columns[at] !== by ? "none" : state.down ? "descending" : "ascending");
      });
    };
    for (const column of columns) {
      const sort = () => {
        state.down = state.by === column && !state.down;
        Object.assign(state, { by: column, ordered: null, page: 0 });
        draw();
      };
      head.append(make("th", { scope: "col", class: column.number ? "number" : "name" }, button(column.label, sort)));
    }
    root.append(
      make("div", { class: "list-scroll", role: "region", "aria-label": caption, tabindex: "0" },
        make("table", { "aria-label": caption }, make("thead", {}, head), body)),
      make("div", { class: "list-foot" }, previous, next, said),
    );
    return (rows, unsort) => {
      Object.assign(state, { rows, ordered: null, page: 0 }, unsort ? { by: null, down: false } : {});
      draw();
    };
  };

  // --- The heatmaps

  const buttonsOf = [];
  const label = (row, view, masked) => {
    const { cells } = store;
    const value = view === "mean" ? buttonsOf[row].firstElementChild.textContent : cells[view].get(row);
    const text = masked ? "not shown by the published mask" : {
      mean: value,
      z: `z ${value}`,
      interaction: value === store.missing ? "no part of δ" : `${value} beyond perceiver and experiencer`,
      missing: `${value} without a rating, ${cells.refused.get(row)} refused`,
    }[view];
    buttonsOf[row].setAttribute(
      "aria-label", `perceiver ${cells.perceiver.get(row)}, experiencer ${cells.experiencer.get(row)}: ${text}`);
  };

  const show = (view, mask) => {
    const { cells, palettes } = store;
    buttonsOf.forEach((cell, row) => {
      const masked = view === "z" && mask && !cells.shown.get(row);
      const step = masked ? -1 : cells[`${view}_step`].get(row);
      const other = cell.lastElementChild;
      const mean = view === "mean";
      for (const child of cell.children) child.hidden = (child === other) === mean;
      other.textContent = masked || mean ? "" : cells[view].get(row);
      cell.classList.toggle("masked", step < 0);
      const [light, dark] = palettes[mean || view === "missing" ? "sequential" : "diverging"];
      cell.style.setProperty("--l", step < 0 ? "" : light[step]);
      cell.style.setProperty("--d", step < 0 ? "" : dark[step]);
      label(row, view, masked);
    });
    document.querySelectorAll(".heat-legend").forEach((legend) => { legend.hidden = legend.dataset.view !== view; });
  };

  const arrows = (table) => {
    const rows = [...table.querySelectorAll("tbody tr")].map((row) =>
      [...row.querySelectorAll("td.cell")].map((cell) => cell.querySelector("button")));
    const all = rows.flat().filter(Boolean);
    const hold = (target) => all.forEach((cell) => { cell.tabIndex = cell === target ? 0 : -1; });
    hold(all[0]);
    table.addEventListener("focusin", ({ target }) => hold(target));
    table.addEventListener("keydown", (event) => {
      const y = rows.findIndex((row) => row.includes(event.target));
      if (y < 0 || event.altKey || event.metaKey) return;
      const x = rows[y].indexOf(event.target);
      const row = rows[y].filter(Boolean);
      const column = (from, by) => {
        for (let at = from + by; at >= 0 && at < rows.length; at += by) if (rows[at][x]) return rows[at][x];
        return null;
      };
      const here = row.indexOf(event.target);
      const target = {
        ArrowLeft: () => row[here - 1],
        ArrowRight: () => row[here + 1],
        ArrowUp: () => column(y, -1),
        ArrowDown: () => column(y, 1),
        Home: () => (event.ctrlKey ? all[0] : row[0]),
        End: () => (event.ctrlKey ? all[all.length - 1] : row[row.length - 1]),
      }[event.key];
      if (!target) return;
      event.preventDefault();
      target()?.focus();
    });
  };

  // --- What one cell is made of

  const startPanel = (panel) => {
    const slot = (name) => panel.querySelector(`[data-slot="${name}"]`);
    const more = panel.querySelector('[data-do="more"]');
    let from = null;
    let rest = [];
    const extend = () => {
      const { ratings, narratives } = store;
      const added = rest.splice(0, PAGE).map((row) => {
        const [id, emotion] = narratives[ratings.narrative.get(row)];
        const status = ratings.status.get(row);
        const said = status === "rated" ? ratings.intensity.get(row) : status;
        const item = make("details", {}, make("summary", {}, make("bdi", {}, id), ", ", make("bdi", {}, emotion), `: ${said}`));
        item.addEventListener("toggle", () => { if (item.open && item.children.length < 2) item.append(inFull(row)); });
        return item;
      });
      slot("ratings").append(...added);
      more.hidden = rest.length === 0;
      return added[0];
    };
    const open = (row, origin) => {
      const { cells, emotions, ratings, parts } = store;
      from = origin;
      for (const name of ["perceiver", "experiencer", "mean", "sd", "n_prompts", "n_rated", "n_refused", "refused",
        "n_unparseable", "n_failed", "n_inexact", "interaction", "z", "p_perceiver", "p_experiencer"]) {
        if (name === "n_inexact") slot(name).parentNode.hidden = !cells[name];
        if (cells[name]) slot(name).textContent = cells[name].get(row);
      }
      slot("part").textContent = parts[cells.part.get(row)][0];
      slot("kind").textContent = KIND_WORDS[cells.kind.get(row)];
      slot("shown").textContent = cells.shown.get(row) ? "shows this cell" : "hides this cell";
      const gap = cells.gap.get(row);
      slot("gap").hidden = !gap;
      ["member", "partner", "said"].forEach((name, at) => { slot(name).textContent = gap ? gap[at] : ""; });
      slot("emotions").hidden = !emotions;
      const lines = [];
      for (let at = emotions ? emotions.start[row] : 0; emotions && at < emotions.start[row + 1]; at++) {
        const bar = make("span", { class: "bar" });
        bar.style.setProperty("--share", emotions.length.get(at));
        lines.push(make("tr", {}, make("th", { scope: "row" }, make("bdi", {}, emotions.emotion.get(at))),
          make("td", {}, emotions.mean.get(at)),
          make("td", {}, `${emotions.n_rated.get(at)} of ${emotions.n_prompts.get(at)}`), make("td", {}, bar)));
      }
      panel.querySelector(".panel-emotions tbody").replaceChildren(...lines);
      slot("ratings").replaceChildren();
      rest = Array.from({ length: ratings.start[row + 1] - ratings.start[row] }, (_, at) => ratings.start[row] + at);
      slot("held").textContent = `${count(rest.length)} of its ${cells.n_prompts.get(row)} prompts can be opened here`;
      extend();
      panel.showModal();
      panel.scrollTop = 0;
      panel.querySelector("h3").focus();
    };
    panel.querySelector('[data-do="close"]').addEventListener("click", () => panel.close());
    panel.addEventListener("click", ({ target }) => { if (target === panel) panel.close(); });
    panel.addEventListener("close", () => { if (from) from.focus(); });
    more.addEventListener("click", () => extend().querySelector("summary").focus());
    return open;
  };

  // --- The ratings and the narratives

  const startBrowser = (form, home) => {
    const { cells, ratings, narratives, contrasts, parts, missing } = store;
    const field = (name) => form.querySelector(`[data-filter="${name}"] > *`);
    const emotions = [...new Set(narratives.map(([, emotion]) => emotion))].sort();
    const emotionOf = Int32Array.from(narratives, ([, emotion]) => emotions.indexOf(emotion));
    const choices = {
      part: parts.map(([title]) => title),
      emotion: emotions,
      status: ratings.status.of,
      perceiver: cells.perceiver.of,
      experiencer: cells.experiencer.of,
      kind: KINDS,
    };
    for (const [name, values] of Object.entries(choices)) {
      field(name).append(make("option", { value: "-1" }, "all"), ...values.map((value, at) => make("option", { value: at }, value)));
      field(name).parentElement.hidden = values.length < 2;
    }
    const ofCell = (name) => ({
      of: cells[name].of,
      code: (row) => cells[name].code[ratings.group[row]],
      text: (row) => cells[name].get(ratings.group[row]),
    });
    const leading = (narrative, part) => [
      { label: "narrative", top: narratives.length, code: narrative, text: (row) => narratives[narrative(row)][0] },
      { label: "emotion", of: emotions, code: (row) => emotionOf[narrative(row)], text: (row) => narratives[narrative(row)][1] },
      ...(parts.length > 1 ? [{ label: "dimension", top: parts.length, code: part, text: (row) => parts[part(row)][0] }] : []),
    ];
    const own = (table, name, number) => ({
      number, of: table[name].of, code: (row) => table[name].code[row], text: (row) => table[name].get(row),
    });
    const columns = [
      ...leading((row) => ratings.narrative.code[row], (row) => cells.part.code[ratings.group[row]]),
      { label: "perceiver", ...ofCell("perceiver") },
      { label: "experiencer", ...ofCell("experiencer") },
      { label: "status", ...own(ratings, "status") },
      { label: "intensity", ...own(ratings, "intensity", true) },
    ];
    if (ratings.number_mass.of.some((mass) => mass !== missing)) {
      columns.push({ label: "number mass", ...own(ratings, "number_mass", true) });
    }
    const opener = (row, text, line) => button(make("bdi", {}, text), ({ currentTarget }) => {
      const opened = line.nextElementSibling;
      const closing = Boolean(opened && opened.matches(".opened"));
      if (closing) opened.remove();
      else line.after(make("tr", { class: "opened" }, make("td", { colspan: columns.length }, make("div", {}, inFull(row)))));
      currentTarget.setAttribute("aria-expanded", String(!closing));
    }, { "aria-expanded": "false" });
    const draw = list(home("ratings"), "Prompts in this file", "prompt", columns, opener);

    let sought;
    const filter = (unsort) => {
      const want = Object.fromEntries(Object.keys(choices).map((name) => [name, Number(field(name).value)]));
      const search = field("search").value.trim().toLowerCase();
      if (search) sought ??= narratives.map(([id, , text]) => `${id}\n${text ? whole(text) : ""}`.toLowerCase());
      const narrativeFits = Uint8Array.from(narratives, (_, at) =>
        (want.emotion < 0 || emotionOf[at] === want.emotion) && (!search || sought[at].includes(search)));
      const cellFits = new Uint8Array(cells.n);
      for (let at = 0; at < cells.n; at++) {
        cellFits[at] = ["part", "perceiver", "experiencer", "kind"].every((name) => want[name] < 0 || cells[name].code[at] === want[name]);
      }
      const status = ratings.status.code;
      const kept = new Int32Array(ratings.n);
      let n = 0;
      for (let row = 0; row < ratings.n; row++) {
        if (cellFits[ratings.group[row]] && narrativeFits[ratings.narrative.code[row]]
          && (want.status < 0 || status[row] === want.status)) kept[n++] = row;
      }
      draw(kept.subarray(0, n), unsort);
    };
    let pause;
    form.addEventListener("input", ({ target }) => {
      clearTimeout(pause);
      if (target.type === "search") pause = setTimeout(filter, 150);
      else filter();
    });
    form.addEventListener("submit", (event) => { event.preventDefault(); filter(); });
    form.addEventListener("reset", () => { clearTimeout(pause); setTimeout(() => filter(true)); });
    filter();

    if (!contrasts || !home("narratives")) return;
    const ofNarrative = contrasts.narrative.code;
    const find = (row) => {
      form.reset(); // filters when this is done
      field("search").value = narratives[ofNarrative[row]][0];
      field("search").focus();
    };
    list(home("narratives"), "Narratives in this file", "narrative", [
      ...leading((row) => ofNarrative[row], (row) => contrasts.group[row]),
      { label: "contrast, points", ...own(contrasts, "contrast", true) },
      { label: "mean", ...own(contrasts, "mean", true) },
      { label: "rated", ...own(contrasts, "n_rated", true) },
      { label: "prompts", ...own(contrasts, "n_prompts", true) },
    ],
    (row, text) => button(make("bdi", {}, text), () => find(row)))(Int32Array.from({ length: contrasts.n }, (_, at) => at));
  };

  // --- Start

  const start = async () => {
    const root = document.querySelector(".explore");
    const data = document.getElementById("explore-data");
    if (!root || !data) return;
    try {
      store = await read(data.textContent);
    } catch {
      document.getElementById("explore-failed").hidden = false;
      return;
    }
    const openPanel = startPanel(document.getElementById("explore-panel"));
    root.querySelectorAll("[data-cell]").forEach((cell) => {
      const row = Number(cell.dataset.cell);
      buttonsOf[row] = cell;
      cell.append(make("span", { hidden: "" }));
      cell.disabled = false;
      cell.addEventListener("click", () => openPanel(row, cell));
    });
    root.querySelectorAll(".heat table").forEach((table) => { table.setAttribute("role", "grid"); arrows(table); });
    root.querySelectorAll(".heat-scroll").forEach((scroll) => scroll.removeAttribute("tabindex"));
    const mask = document.getElementById("explore-mask");
    const views = [...root.querySelectorAll('[name="explore-view"]')];
    const change = () => {
      const view = views.find((choice) => choice.checked).value;
      mask.disabled = view !== "z";
      show(view, mask.checked);
    };
    [...views, mask].forEach((choice) => choice.addEventListener("change", change));
    root.querySelectorAll("[data-script]").forEach((element) => { element.hidden = false; });
    change();
    const browse = () => {
      startBrowser(document.getElementById("explore-filters"), (name) => root.querySelector(`[data-list="${name}"]`));
    };
    if (window.requestIdleCallback) requestIdleCallback(browse, { timeout: 2000 });
    else setTimeout(browse, 1);
  };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
