(() => {
  "use strict";
  const { form, questions, items, about = [], words } = JSON.parse(document.getElementById("form-data").textContent);
  const at = (id) => document.getElementById(id);
  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  };

  // --- Whose answers, and in which order

  const RATER = /^[\p{L}\p{N}](?:[\p{L}\p{N}._-]*[\p{L}\p{N}])?$/u;
  let rater = null;
  let order = [];
  let place = 0;
  let kept = { answers: {}, about: {}, saved: true };

  // FNV-1a over UTF-16 code units, then Mulberry32, then Fisher-Yates: the same rater always has the same order.
  const shuffled = (n, seed) => {
    let state = 0x811c9dc5;
    for (let i = 0; i < seed.length; i++) state = Math.imul(state ^ seed.charCodeAt(i), 0x01000193);
    const random = () => {
      state = (state + 0x6d2b79f5) | 0;
      let t = Math.imul(state ^ (state >>> 15), 1 | state);
      t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
      return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    };
    const places = Array.from({ length: n }, (_, i) => i);
    for (let i = n - 1; i > 0; i--) {
      const j = Math.floor(random() * (i + 1));
      [places[i], places[j]] = [places[j], places[i]];
    }
    return places;
  };

  // --- Keeping answers

  const slot = (what) => `rating-form/${form}/${what}`;
  const warn = (text) => {
    at("trouble").textContent = text;
    at("trouble").hidden = false;
  };
  const ends = ({ options, low, high }) => (options ? [0, options.length - 1] : [low, high]);
  const fits = (question, value) => {
    const [low, high] = ends(question);
    return Number.isInteger(value) && value >= low && value <= high;
  };
  // An option is kept as its place, and written out.
  const written = ({ options }, value) => (value === null ? "" : options ? options[value] : value);
  const trusted = (asked, found) => {
    const good = asked.filter((question) => fits(question, found?.[question.name]));
    return Object.fromEntries(good.map(({ name }) => [name, found[name]]));
  };

  let keeps = true;
  const recall = () => {
    // Where a write has failed, what was kept is older than what is here.
    if (!keeps) return null;
    let found = null;
    try {
      found = JSON.parse(localStorage.getItem(slot(`of/${rater}`)));
    } catch {
      return null;
    }
    if (!found || typeof found.answers !== "object") return null;
    const answers = {};
    for (const { item_id } of items) {
      const own = trusted(questions, found.answers?.[item_id]);
      if (Object.keys(own).length) answers[item_id] = own;
    }
    return { answers, about: trusted(about, found.about), saved: found.saved === true };
  };
  const keep = () => {
    try {
      localStorage.setItem(slot(`of/${rater}`), JSON.stringify(kept));
      localStorage.setItem(slot("last"), rater);
    } catch {
      keeps = false;
      warn("This browser keeps no answers for you: save the file before you close this page, or they are lost.");
    }
  };
  const change = (item, name, value) => {
    // Another tab may have kept answers since: only this one is changed.
    kept = recall() ?? kept;
    const own = (kept.answers[item] ??= {});
    if (value === null) delete own[name];
    else own[name] = value;
    kept.saved = false;
    keep();
  };
  const given = (item, name) => kept.answers[item]?.[name] ?? null;
  const full = (item) => questions.every(({ name }) => given(item, name) !== null);
  const nFull = () => items.filter(({ item_id }) => full(item_id)).length;

  // --- One item

  let active = -1;
  const fields = () => [...at("questions").children];
  const mark = (number) => {
    active = number;
    fields().forEach((field, i) => field.toggleAttribute("data-active", i === number));
  };
  const say = (text) => { at("said").textContent = text; };
  const tell = () => {
    const n = nFull();
    at("progress").value = n;
    at("done").textContent = `${n} of ${items.length} rated in full`;
    at("end-done").textContent = `You have rated ${n} of ${items.length} ${words.many} in full.`;
    at("open").disabled = n === items.length;
  };

  const answer = (question, item, value) => {
    change(item, question.name, value);
    tell();
  };
  const radios = (question, item, kind, labels) => {
    const choices = make("div", { class: kind });
    for (const [value, label] of labels) {
      const radio = make("input", { type: "radio", name: `q-${question.name}`, value });
      radio.checked = given(item, question.name) === value;
      radio.addEventListener("change", () => answer(question, item, value));
      choices.append(make("label", {}, radio, label));
    }
    return choices;
  };
  const numberField = (question, item, text, described) => {
    const { name, low, high } = question;
    const field = make("input", { type: "number", name: `q-${name}`, min: low, max: high, step: 1, inputmode: "numeric", autocomplete: "off", "aria-label": text, "aria-describedby": described });
    field.value = given(item, name) ?? "";
    field.addEventListener("input", () => {
      const value = field.value === "" ? null : Number(field.value);
      const good = value !== null && fits(question, value);
      answer(question, item, good ? value : null);
      const empty = field.value === "" && !field.validity.badInput;
      say(good || empty ? "" : `Enter a whole number from ${low} to ${high}; anything else is not kept`);
    });
    field.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();
      const following = fields()[questions.indexOf(question) + 1];
      (following?.querySelector("input") ?? at("next")).focus();
      if (!following) show(place + 1);
    });
    return make("div", { class: "number" }, field);
  };
  const ask = (question, item, emotion) => {
    const { name, options, entry, low, high } = question;
    const text = question.text.split("{emotion}").join(emotion ?? "the emotion");
    const id = `ends-${name}`;
    const legend = make("legend", {}, text);
    let field;
    if (options) field = make("fieldset", {}, legend, radios(question, item, "options", options.map((label, i) => [i, label])));
    else {
      const labels = [make("span", {}, `${low}: ${question.low_label}`), make("span", {}, `${high}: ${question.high_label}`)];
      const scale =
        entry === "number"
          ? numberField(question, item, text, id)
          : radios(question, item, "scale", Array.from({ length: high - low + 1 }, (_, i) => [low + i, `${low + i}`]));
      field = make("fieldset", { "aria-describedby": id }, legend, scale, make("p", { class: "ends", id }, labels[0], " ", labels[1]));
    }
    field.addEventListener("focusin", () => mark(questions.indexOf(question)));
    return field;
  };

  const show = (number) => {
    place = Math.max(0, Math.min(number, items.length));
    const ended = place === items.length;
    at("rating").hidden = ended;
    at("end").hidden = !ended;
    at("back").disabled = place === 0;
    at("next").disabled = ended;
    if (!ended) {
      const item = items[order[place]];
      at("place").textContent = `${words.one[0].toUpperCase()}${words.one.slice(1)} ${place + 1} of ${items.length}`;
      at("person-line").hidden = item.person === undefined;
      at("person").textContent = item.person ?? "";
      at("narrative").textContent = item.narrative;
      for (const id of ["reply", "reply-head"]) at(id).hidden = item.reply === undefined;
      at("reply").textContent = item.reply ?? "";
      at("questions").replaceChildren(...questions.map((question) => ask(question, item.item_id, item.emotion)));
      mark(questions.findIndex(({ name }) => given(item.item_id, name) === null));
    }
    tell();
    say("");
    at(ended ? "end-head" : "place").focus({ preventScroll: true });
    window.scrollTo(0, 0);
  };
  const firstOpen = (otherwise) => {
    const found = order.findIndex((i) => !full(items[i].item_id));
    return found < 0 ? otherwise : found;
  };

  at("clear").addEventListener("click", () => {
    const item = items[order[place]].item_id;
    for (const { name } of questions) change(item, name, null);
    show(place);
    say(`The answers to this ${words.one} are cleared`);
  });
  at("back").addEventListener("click", () => show(place - 1));
  at("next").addEventListener("click", () => show(place + 1));
  at("open").addEventListener("click", () => show(firstOpen(items.length)));

  at("rating").addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.shiftKey) return;
    const question = questions[active];
    if (event.target.type === "number" || question?.options) return;
    if (/^[0-9]$/.test(event.key) && question?.entry === "number") {
      fields()[active].querySelector("input").focus(); // which takes the figure
      return;
    }
    if (/^[0-9]$/.test(event.key) && question && fits(question, Number(event.key))) {
      event.preventDefault();
      const value = Number(event.key);
      const item = items[order[place]].item_id;
      change(item, question.name, value);
      fields()[active].querySelector(`input[value="${value}"]`).checked = true;
      tell();
      const following = fields()[active + 1];
      if (following) (following.querySelector(":checked") ?? following.querySelector("input")).focus();
      else {
        mark(-1);
        at("next").focus();
      }
    }
  });
  document.addEventListener("keydown", (event) => {
    if (rater === null || event.ctrlKey || event.altKey || event.metaKey || event.shiftKey) return;
    if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
      event.preventDefault();
      show(place + (event.key === "ArrowLeft" ? -1 : 1));
    }
  });

  // --- Saving

  const cell = (text) => `"${String(text).replaceAll('"', '""')}"`;
  at("save").addEventListener("click", () => {
    kept = recall() ?? kept;
    const lines = [["rater", "item_id", ...[...questions, ...about].map(({ name }) => name)]];
    const own = about.map((question) => written(question, kept.about[question.name] ?? null));
    for (const { item_id } of items) {
      lines.push([rater, item_id, ...questions.map((question) => written(question, given(item_id, question.name))), ...own]);
    }
    // The mark at the start is for spreadsheets that would not take the file for UTF-8 without it.
    const text = `\ufeff${lines.map((line) => `${line.map(cell).join(",")}\r\n`).join("")}`;
    const link = make("a", { download: `ratings-${rater}.csv` });
    link.href = URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" }));
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    kept.saved = true;
    keep();
    say(`ratings-${rater}.csv is saved where this browser puts what it downloads`);
  });
  window.addEventListener("beforeunload", (event) => {
    if (rater !== null && !kept.saved) event.preventDefault();
  });

  // --- Who it is

  at("who").addEventListener("submit", (event) => {
    event.preventDefault();
    const asked = at("rater").value.trim().normalize("NFC");
    if (!RATER.test(asked)) {
      warn("An ID has letters and digits, and . _ - between them, and nothing else.");
      at("rater").focus();
      return;
    }
    rater = asked;
    kept = recall() ?? { answers: {}, about: {}, saved: true };
    const chosen = about.map((_, i) => at(`about-${i}`));
    about.forEach(({ name }, i) => {
      if (chosen[i].value === "" || kept.about[name] === Number(chosen[i].value)) return;
      kept.about[name] = Number(chosen[i].value);
      kept.saved = false;
    });
    const open = about.findIndex(({ name }) => kept.about[name] === undefined);
    if (open >= 0) {
      rater = null;
      warn("Please answer every question on this page; one of the answers is not to say.");
      chosen[open].focus();
      return;
    }
    at("trouble").hidden = true;
    keep();
    order = shuffled(items.length, `${form}/${rater}`);
    at("whose-id").textContent = rater;
    for (const id of ["whose", "moves"]) at(id).hidden = false;
    at("start").hidden = true;
    show(firstOpen(items.length));
  });
  at("leave").addEventListener("click", () => {
    if (!kept.saved && !window.confirm("These answers are not saved as a file yet. They stay in this browser. Go on?")) return;
    rater = null;
    for (const id of ["whose", "moves", "rating", "end"]) at(id).hidden = true;
    at("start").hidden = false;
    at("rater").value = "";
    about.forEach((_, i) => { at(`about-${i}`).value = ""; });
    at("rater").focus();
  });

  try {
    at("rater").value = localStorage.getItem(slot("last")) ?? "";
  } catch {
    // Said as soon as there is something to keep.
  }
  at("scriptless").hidden = true;
  at("who").querySelector("button").disabled = false;
})();
