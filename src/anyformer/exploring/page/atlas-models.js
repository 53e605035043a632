// All models that pass the filters, by the columns of the table.

import { fill, h } from "./dom.js";
import { entryLink } from "./entry-link.js";
import { count, whole } from "./numbers.js";

const COLUMNS = ["attention", "position", "norm", "placement", "activation", "window", "wiring", "stability", "training", "shape"];
const PLAIN = { window: "full", wiring: "serial" };
let sorted = ["year", 1];

/** The words of a column; a window with its size, as in the terminal. */
const words = (entry, column) => (column === "window" ? entry.window.split("+") : entry.words[column]).filter((word) => word !== PLAIN[column]).join(", ");

const KEYS = { name: (entry) => entry.name, organisation: (entry) => entry.organisation, experts: (entry) => entry.numbers.experts };

function value(entry, column) {
  if (column in KEYS) return KEYS[column](entry);
  return column in entry.numbers ? entry.numbers[column] : words(entry, column);
}

export function draw(place, data, filters) {
  const [by, way] = sorted;
  const rows = filters.entries().sort((a, b) => {
    const [one, other] = [value(a, by), value(b, by)];
    return way * (typeof one === "number" ? one - other : String(one).localeCompare(String(other)));
  });
  const head = (column, said, number = false) => {
    const now = by === column ? (way > 0 ? "ascending" : "descending") : null;
    const turn = () => {
      sorted = [column, by === column ? -way : 1];
      draw(place, data, filters);
    };
    return h("th", { scope: "col", class: number ? "number" : null, "aria-sort": now }, h("button", { type: "button", class: "quiet", "data-key": `by-${column}`, onclick: turn }, said, now ? h("span", { "aria-hidden": "true" }, way > 0 ? " ↑" : " ↓") : null));
  };
  fill(place, h("div", { class: "about" }, h("h1", {}, "Models"), h("p", { class: "facts" }, "Every column is computed from the description; ~ is not exact, since not everything is public.")),
    h("div", { class: "scrolled models", tabindex: "0", role: "group", "aria-label": "models" }, h("table", {},
      h("thead", {}, h("tr", {}, head("name", "name"), head("year", "year", true), head("parameters", "parameters", true), head("active", "a token uses", true), COLUMNS.slice(0, 5).map((each) => head(each, data.words[each])), head("experts", "experts", true), COLUMNS.slice(5).map((each) => head(each, data.words[each])), head("layers", "layers", true), head("width", "width", true), head("organisation", "publisher"))),
      h("tbody", {}, rows.map((entry) => {
        const { numbers } = entry, guess = entry.stand_in ? "~" : "";
        return h("tr", {}, h("th", { scope: "row" }, entryLink(entry.name, entry.name, `${entry.summary} (${entry.source})`)), h("td", { class: "number" }, numbers.year), h("td", { class: "number", title: whole(numbers.parameters) }, guess + count(numbers.parameters)),
          h("td", { class: "number" }, numbers.active === numbers.parameters ? "" : guess + count(numbers.active)), COLUMNS.slice(0, 5).map((each) => h("td", {}, words(entry, each))), h("td", { class: "number" }, numbers.experts ? `${numbers.chosen}/${numbers.experts}` : ""), COLUMNS.slice(5).map((each) => h("td", {}, words(entry, each))), h("td", { class: "number" }, numbers.layers), h("td", { class: "number" }, whole(numbers.width)), h("td", {}, entry.organisation));
      })))));
}
