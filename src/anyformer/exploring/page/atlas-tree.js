// The family tree: a row per design, from its nearest earlier one, at the year of its first model.

import { fill, h, s } from "./dom.js";
import { entryLink } from "./entry-link.js";
import { count } from "./numbers.js";
import { grouped } from "./atlas-filters.js";

const ROW = 22, YEAR = 58, LEFT = 14, STEP = 9;
let marked = null;

const first = (data, design) => data.entries[design.entries[0]];
const yearOf = (data, design) => first(data, design).numbers.year;

/** The rows of the tree in order: [design's number, level], the designs with a model that passes, and those above them. */
function rows(data, filters) {
  const passing = new Set(data.designs.map((each, number) => [each, number]).filter(([each]) => each.entries.some((entry) => filters.takes(data.entries[entry]))).map(([, number]) => number));
  const shown = new Set();
  for (let number of passing) for (; number !== null && !shown.has(number); number = data.designs[number].parent) shown.add(number);
  const below = new Map([[null, []]]);
  for (const number of [...shown].sort((a, b) => a - b)) {
    below.set(number, below.get(number) ?? []);
    const { parent } = data.designs[number];
    below.set(parent, [...(below.get(parent) ?? []), number]);
  }
  const found = [];
  const walk = (number, level) => {
    found.push([number, level]);
    for (const child of below.get(number)) walk(child, level + 1);
  };
  for (const root of below.get(null)) walk(root, 1);
  return { found, passing, below };
}

/** The place of every design on the axis of years; one of its parent's year stands a little to the right of it. */
function places(data, order, start) {
  const place = new Map();
  for (const [number] of order) {
    const design = data.designs[number], year = yearOf(data, design), at = LEFT + (year - start) * YEAR;
    const same = design.parent !== null && yearOf(data, data.designs[design.parent]) === year;
    place.set(number, same ? Math.min(place.get(design.parent) + STEP, at + YEAR - 8) : at);
  }
  return place;
}

function lines(data, order, place, start, years) {
  const height = order.length * ROW, width = LEFT + years * YEAR, row = new Map(order.map(([number], at) => [number, at * ROW + ROW / 2]));
  const drawing = (name) => s("svg", { class: name, width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
  const behind = drawing("grids"), svg = drawing("branches");
  for (let year = 0; year < years; year += 1) behind.append(s("line", { class: "grid", x1: LEFT + year * YEAR, x2: LEFT + year * YEAR, y1: 0, y2: height }));
  for (const [number] of order) {
    const { parent } = data.designs[number];
    if (parent !== null) svg.append(s("path", { class: "branch", d: `M${place.get(parent)} ${row.get(parent) + 5}V${row.get(number)}H${place.get(number) - 4}` }));
  }
  return [behind, svg];
}

function change(data, design, most = 4) {
  const gained = design.gained.map(([mechanism, seen]) => [data.mechanisms[mechanism].name, seen === null]);
  gained.sort(([, one], [, other]) => Number(other) - Number(one));
  const more = gained.length - most;
  return [gained.slice(0, most).map(([name, isNew]) => h("span", { class: isNew ? "gained new" : "gained" }, `+ ${name}`)), more > 0 ? h("span", { class: "gained" }, `+ ${more} more`) : null,
    design.lost.slice(0, 2).map((each) => h("span", { class: "lost" }, `− ${data.mechanisms[each].name}`)), design.lost.length > 2 ? h("span", { class: "lost" }, `− ${design.lost.length - 2} more`) : null];
}

/** One design in words: its models, the nearest earlier one, what it has beside it and what not. */
function about(data, number, open) {
  const design = data.designs[number], entry = first(data, design);
  const link = (other) => h("button", { type: "button", class: "quiet to", onclick: () => open(other) }, first(data, data.designs[other]).name);
  const list = (title, items) => (items.length ? [h("h3", {}, title), h("ul", { class: "plain" }, items)] : []);
  return [h("h2", { tabindex: "-1", "data-key": "about" }, entry.name), h("p", { class: "facts" }, `${entry.organisation}, ${entry.numbers.year}: ${entry.summary}.`), h("p", { class: "note faint" }, `Source: ${entry.source}.`),
    list(design.entries.length > 1 ? `${design.entries.length} models with the same mechanisms` : "one model", design.entries.map((each) => {
      const own = data.entries[each];
      return h("li", {}, entryLink(own.name), h("small", {}, ` ${own.numbers.year}, ${own.stand_in ? "~" : ""}${count(own.numbers.parameters)}`));
    })),
    design.parent === null ? h("p", {}, "No design of the catalogue is earlier.") : [h("h3", {}, "nearest earlier design"), h("p", {}, link(design.parent))],
    list("has beside it", design.gained.map(([mechanism, seen]) => h("li", {}, data.mechanisms[mechanism].name, seen === null ? h("small", { class: "first" }, " first here") : h("small", {}, " seen before in ", link(seen))))),
    list("has no more", design.lost.map((each) => h("li", {}, data.mechanisms[each].name))),
    h("details", {}, h("summary", {}, "all its mechanisms"), h("ul", { class: "plain" }, entry.mechanisms.map((each) => h("li", {}, h("a", { href: `#atlas/topics/${data.mechanisms[each].topic}` }, data.mechanisms[each].name)))))];
}

class Tree {
  constructor(data, filters, redraw) {
    Object.assign(this, { data, redraw });
    this.parts = rows(data, filters);
    this.chosen = null;
    this.panel = h("aside", { class: "design", "aria-label": "the chosen design" }, h("p", { class: "note faint" }, "Choose a design."));
    this.list = h("ul", { role: "tree", "aria-label": "designs by year", class: "rows" });
    this.list.addEventListener("keydown", (event) => this.pressed(event));
  }

  elements() {
    const { data } = this, order = this.parts.found;
    const all = order.map(([number]) => yearOf(data, data.designs[number])), start = Math.min(...all), years = Math.max(...all) - start + 1;
    const place = places(data, order, start);
    this.items = new Map(order.map(([number, level], at) => [number, this.row(number, level, place.get(number), at === 0)]));
    this.list.replaceChildren(...this.items.values());
    const axis = h("ol", { class: "years", "aria-hidden": "true" }, Array.from({ length: years }, (_, at) => {
      const item = h("li", {}, start + at);
      item.style.left = `${LEFT + at * YEAR}px`;
      return item;
    }));
    return h("div", { class: "tree" }, h("div", { class: "scrolled branching", tabindex: "-1" }, axis, h("div", { class: "branching-rows" }, lines(data, order, place, start, years), this.list)), this.panel);
  }

  row(number, level, at, focusable) {
    const { data } = this, design = data.designs[number], entry = first(data, design);
    const has = marked !== null && entry.mechanisms.includes(marked);
    const names = design.entries.length > 1 ? h("small", {}, ` and ${design.entries.length - 1} more`) : null;
    const item = h("li", { role: "treeitem", "aria-level": level, "aria-selected": "false", "aria-expanded": this.parts.below.get(number).length ? "true" : null, tabindex: focusable ? "0" : "-1", class: `${this.parts.passing.has(number) ? "" : "beyond "}${has ? "has" : ""}`, onclick: () => this.open(number) },
      h("i", { class: "dot", "aria-hidden": "true" }), h("strong", {}, entry.name), has ? h("span", { class: "unseen" }, `, has ${data.mechanisms[marked].name}`) : null, names, h("span", { class: "changes" }, change(data, design)));
    item.style.paddingLeft = `${at + 9}px`;
    item.firstChild.style.left = `${at - 4}px`;
    return item;
  }

  open(number) {
    const item = this.items.get(number);
    if (!item) return;
    for (const [other, each] of this.items) {
      each.setAttribute("aria-selected", String(other === number));
      each.tabIndex = other === number ? 0 : -1;
    }
    this.chosen = number;
    item.focus({ preventScroll: true });
    item.scrollIntoView({ block: "nearest", inline: "nearest" });
    fill(this.panel, about(this.data, number, (other) => this.open(other)));
  }

  pressed(event) {
    const order = this.parts.found.map(([number]) => number), now = [...this.items].find(([, item]) => item === document.activeElement)?.[0];
    if (now === undefined) return;
    const at = order.indexOf(now), { parent } = this.data.designs[now], [child] = this.parts.below.get(now);
    const to = { ArrowDown: order[at + 1], ArrowUp: order[at - 1], ArrowLeft: parent, ArrowRight: child, Home: order[0], End: order.at(-1), Enter: now, " ": now }[event.key];
    if (to === undefined || to === null) return;
    event.preventDefault();
    event.stopPropagation();
    if (event.key === "Enter" || event.key === " ") return this.open(now);
    for (const each of this.items.values()) each.tabIndex = -1;
    const item = this.items.get(to);
    item.tabIndex = 0;
    item.focus();
    return undefined;
  }
}

export function draw(place, data, filters) {
  const mark = (event) => {
    marked = event.target.value === "" ? null : Number(event.target.value);
    draw(place, data, filters);
  };
  if (!filters.entries().length) return fill(place, h("p", { class: "note" }, "No model passes these filters."));
  const tree = new Tree(data, filters), asked = [...filters.has];
  if (marked === null && asked.length) marked = asked.at(-1);
  const designs = tree.parts.passing.size;
  return fill(place, h("div", { class: "about" }, h("h1", {}, "Family tree"),
    h("p", { class: "facts" }, `${designs} designs: models of a family with the same mechanisms. Each hangs from the earlier design whose mechanisms differ least, which is computed from descriptions and says nothing of who knew whom. `, h("span", { class: "gained new" }, "+ bold"), " is first in this catalogue."),
    h("label", { class: "line" }, h("span", {}, "mark those with"), h("select", { "data-key": "mark", onchange: mark }, h("option", { value: "" }, "nothing"), grouped(data, () => true, marked)))),
  tree.elements());
}
