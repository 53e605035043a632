// Trends: of the families with a new model in a year, how many have one with a mechanism. Sizes of a line count once.

import { frame, through } from "./axes.js";
import { fill, h, s } from "./dom.js";
import { grouped } from "./atlas-filters.js";

const WIDE = 250, HIGH = 128;
// Fewer families than this in a year are drawn as a ring: their share says little.
const FEW = 5;

/** [[year, having, families]] of a mechanism among entries, as `anyformer.atlas.trends` counts it. */
export function trend(data, entries, mechanism) {
  const years = new Map();
  for (const entry of entries) {
    const { year } = entry.numbers;
    if (!years.has(year)) years.set(year, [new Set(), new Set()]);
    const [having, all] = years.get(year);
    all.add(entry.family);
    if (entry.mechanisms.includes(mechanism)) having.add(entry.family);
  }
  return [...years].sort(([a], [b]) => a - b).map(([year, [having, all]]) => [year, having.size, all.size]);
}

const percent = (share) => `${Math.round(100 * share)} %`;

/** A small chart of shares by year. */
export function chart(title, years, from, to) {
  const x = { from: from - 0.4, to: to + 0.4, ticks: years.map(([year]) => year).filter((year) => (year - from) % 2 === 1), says: (year) => `’${String(year).slice(2)}` };
  const y = { from: 0, to: 1, ticks: [0, 0.5, 1], says: percent };
  const told = years.map(([year, having, all]) => `${year} ${having} of ${all}`).join(", ");
  const { svg, x: atX, y: atY } = frame({ width: WIDE, height: HIGH, x, y, label: `${title}, families by year: ${told}`, left: 40, right: 8, bottom: 22 });
  const points = years.map(([year, having, all]) => [atX(year), atY(having / all)]);
  svg.append(s("path", { class: "line c1", d: through(points) }));
  years.forEach(([year, having, all], at) => svg.append(s("circle", { class: all < FEW ? "ring c1" : "fill c1", cx: points[at][0], cy: points[at][1], r: 2.6 }, s("title", {}, `${year}: ${having} of ${all} families`))));
  return svg;
}

/** A grid of small charts, of the mechanisms of these names, or of all that are drawn. */
export function multiples(data, filters, names = null, more = [], heading = "h3") {
  const entries = filters.entries(), all = entries.map((each) => each.numbers.year);
  const from = Math.min(...all), to = Math.max(...all);
  const chosen = data.mechanisms.map((each, number) => [each, number]).filter(([each, number]) => (names === null ? each.trend || more.includes(number) : names.includes(each.name)));
  if (names !== null) chosen.sort(([a], [b]) => names.indexOf(a.name) - names.indexOf(b.name));
  return h("ul", { class: "multiples" }, chosen.map(([each, number]) => {
    const years = trend(data, entries, number), [year, having, families] = years.at(-1) ?? [0, 0, 0];
    return h("li", {}, h(heading, { class: "title" }, h("a", { href: `#atlas/tree/${encodeURIComponent(`has=${each.name}`)}` }, each.name)), chart(each.name, years, from, to), h("p", { class: "note faint" }, `${having} of ${families} families in ${year}`));
  }));
}

function table(data, filters, more) {
  const entries = filters.entries();
  const rows = data.mechanisms.map((each, number) => [each, number]).filter(([each, number]) => each.trend || more.includes(number)).map(([each, number]) => [each.name, trend(data, entries, number)]);
  const years = rows[0]?.[1].map(([year]) => year) ?? [];
  return h("details", { class: "counts" }, h("summary", {}, "the counts as a table"), h("div", { class: "scrolled", tabindex: "0", role: "group", "aria-label": "counts" }, h("table", {},
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "families with"), years.map((year) => h("th", { scope: "col", class: "number" }, year)))),
    h("tbody", {}, rows.map(([name, found]) => h("tr", {}, h("th", { scope: "row" }, name), found.map(([, having, all]) => h("td", { class: "number" }, `${having}/${all}`))))))));
}

const added = [];

export function draw(place, data, filters) {
  const entries = filters.entries();
  if (!entries.length) return fill(place, h("p", { class: "note" }, "No model passes these filters."));
  const add = (event) => {
    if (event.target.value !== "") added.push(Number(event.target.value));
    draw(place, data, filters);
  };
  return fill(place, h("div", { class: "about" }, h("h1", {}, "Trends"),
    h("p", { class: "facts" }, "Of the families with a new model in a year, the share that has one with the mechanism; a family is a lineage of the catalogue and a publisher, so that sizes count once. A ring: fewer than five families that year."),
    h("label", { class: "line" }, h("span", {}, "draw also"), h("select", { "data-key": "add", onchange: add }, h("option", { value: "" }, "a mechanism"), grouped(data, (each) => !data.mechanisms[each].trend && !added.includes(each))))),
  multiples(data, filters, null, added, "h2"), table(data, filters, added));
}
