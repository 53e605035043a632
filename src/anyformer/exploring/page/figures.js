// The headline figures, and where parameters and FLOPs are.

import { h } from "./dom.js";
import { bytes, change, count, flops, operations, percent, whole } from "./numbers.js";

/** Rows of headlines: what, value of figures, how it is said, a note. */
const HEADLINES = [
  ["parameters", (f) => f.parameters.total, count, (f) => (f.parameters.active !== f.parameters.total ? `${count(f.parameters.active)} active` : "")],
  ["FLOPs per token", (f) => f.flops.per_token.forward, operations, (f) => (f.flops.per_token.training ? `training ${operations(f.flops.per_token.training)}` : "")],
  ["state per token", (f) => f.state?.per_token, bytes, (f) => (f.state ? `${bytes(f.state.per_sequence)} per sequence` : "")],
  ["weights, bf16", (f) => f.weights.bf16, bytes, (f) => `int4 ${bytes(f.weights.int4)}`],
  ["read to decode", (f) => f.reading?.total, bytes, (f) => (f.reading ? `${percent(f.reading.state / f.reading.total)} of it state` : "")],
];

/** The headline figures; `base`: the same of the architecture before its changes, null where there are none. */
export function headlines(figures, base) {
  return h("dl", { class: "headlines" }, HEADLINES.map(([what, of, say, note]) => {
    const value = of(figures), before = base && of(base);
    if (value === undefined || value === null) return null;
    const moved = base && before !== undefined && before !== null ? change(before, value) : "";
    return h("div", {}, h("dt", {}, what),
      h("dd", {}, h("strong", { title: whole(value) }, say(value)),
        moved ? h("span", { class: `moved ${value > before ? "more" : "less"}`, title: `was ${whole(before)}` }, moved) : null,
        note(figures) ? h("small", {}, note(figures)) : null));
  }));
}

/** A table of components with bars of their shares of parameters and FLOPs. */
export function components(figures) {
  const names = new Map();
  for (const each of figures.parameters.components) names.set(each.component, { parameters: each });
  for (const each of figures.flops.components) names.set(each.component, { ...names.get(each.component), flops: each });
  const rows = [...names].filter(([, each]) => (each.parameters?.total ?? 0) > 0 || (each.flops?.exact ?? 0) > 0);
  return h("table", { class: "components" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "component"), h("th", { scope: "col", colspan: "2" }, "parameters"), h("th", { scope: "col", colspan: "2" }, "FLOPs, forward"))),
    h("tbody", {}, rows.map(([name, each]) => h("tr", {}, h("th", { scope: "row" }, name.replaceAll(".", " · ").replaceAll("_", " ")),
      ...cells(each.parameters?.total, each.parameters?.share, count, "one"), ...cells(each.flops?.exact, each.flops?.share, flops, "two")))));
}

function cells(value, share, say, colour) {
  const bar = h("i", { class: `bar ${colour}`, "aria-hidden": "true" });
  bar.style.setProperty("--share", share ?? 0);
  return [h("td", { class: "number", title: value ? `${whole(value)}, ${percent(share)}` : null }, value ? say(value) : "–"), h("td", { class: "bars" }, bar)];
}

/** Memories of the decode state by their place. */
export function memories(state) {
  if (!state?.memories?.length) return null;
  return h("table", { class: "memories" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "decode state"), h("th", { scope: "col" }, "held"), h("th", { scope: "col" }, "per token"), h("th", { scope: "col" }, "grows"))),
    h("tbody", {}, state.memories.map((each) => h("tr", {}, h("th", { scope: "row" }, each.name.replaceAll(".", " · ").replaceAll("_", " ")),
      h("td", { class: "number" }, bytes(each.bytes)), h("td", { class: "number" }, each.per_token ? bytes(each.per_token) : "–"), h("td", { class: "faint" }, each.grows)))));
}
