// Charts of runs: curves with bands, what experts carry.

import { around, frame, key, powers, through, ticks } from "./axes.js";
import { h, s } from "./dom.js";
import { percent, three, whole } from "./numbers.js";

const WIDE = 560, HIGH = 240;

/**
 * A chart of lines {name, colour, points: [[x, y]], low, high, dashed, marks}: bands where `low` and `high` are given by point,
 * a dot for every point where `marks`.
 */
export function curves(title, lines, { logarithmic = false, across = "step", say = three } = {}) {
  const fits = (value) => Number.isFinite(value) && (!logarithmic || value > 0);
  const points = lines.flatMap((line) => line.points).filter(([, y]) => fits(y));
  if (!points.length) return null;
  const edges = lines.flatMap((line) => [...(line.low ?? []), ...(line.high ?? [])]).filter(fits), values = [...points.map(([, y]) => y), ...edges];
  const [low, high] = logarithmic ? around(values, true) : tight(values);
  // Where values are close together, ticks have the digits that tell them apart.
  const digits = Math.max(0, Math.min(6, 1 - Math.floor(Math.log10(high - low || 1)))), close = say === three && !logarithmic ? (value) => value.toFixed(digits) : say;
  const last = Math.max(...points.map(([x]) => x), 1);
  const x = { from: 0, to: last, ticks: ticks(last, 5), says: whole, title: across };
  const y = { from: low, to: high, log: logarithmic, ticks: logarithmic ? powers(low, high, 10, 6) : steps(low, high), says: close };
  const ends = lines.filter((line) => line.points.length).map((line) => `${line.name}: ${say(line.points.at(-1)[1])} at ${across} ${whole(line.points.at(-1)[0])}`);
  const { svg, x: atX, y: atY } = frame({ width: WIDE, height: HIGH, x, y, label: `${title}. ${ends.join("; ")}`, left: 62, right: 18 });
  for (const line of lines) {
    const place = ([at, value]) => (fits(value) ? [atX(at), atY(value)] : null);
    if (line.low) {
      const edge = (given) => line.points.map(([at], i) => place([at, given[i]])).filter(Boolean);
      svg.append(s("path", { class: `band c${line.colour}`, d: `${through([...edge(line.high), ...edge(line.low).reverse()])}Z` }));
    }
    const places = line.points.map(place);
    svg.append(s("path", { class: `line c${line.colour}${line.dashed ? " dashed" : ""}`, d: through(places) }, s("title", {}, line.name)));
    if (line.marks || line.points.length === 1) svg.append(...places.filter(Boolean).map(([cx, cy]) => s("circle", { class: `fill c${line.colour}`, cx, cy, r: 2.6 })));
  }
  return h("section", {}, h("h2", { class: "title" }, title), svg, lines.length > 1 ? key(lines.map((line) => [line.colour, line.name])) : null);
}

/** The span of values, a little wider. */
function tight(values) {
  const low = Math.min(...values), high = Math.max(...values), room = 0.06 * (high - low || Math.abs(high) || 1);
  return [low >= 0 ? Math.max(0, low - room) : low - room, high + room];
}

/** Round values between two. */
function steps(low, high) {
  const [, step = 1] = ticks(high - low, 5);
  const found = [];
  for (let value = Math.ceil(low / step) * step; value <= high; value += step) found.push(Number(value.toPrecision(12)));
  return found;
}

/** Shares of experts over steps: a column per measurement, a row per expert. */
export function loads(title, step, shares) {
  const experts = shares[0]?.length ?? 0;
  if (!experts) return null;
  const most = Math.max(...shares.flat(), 1e-9), wide = (WIDE - 80) / shares.length, high = Math.min(14, 220 / experts);
  const cells = shares.flatMap((row, at) => row.map((share, expert) => s("rect", { class: "fill c1", x: 62 + at * wide, y: 4 + expert * high, width: wide, height: high, opacity: Math.max(0.03, share / most) }, s("title", {}, `step ${whole(step[at])}, expert ${expert}: ${percent(share)}`))));
  const low = 4 + experts * high;
  const svg = s("svg", { viewBox: `0 0 ${WIDE} ${low + 30}`, class: "chart", role: "img", "aria-label": `${title}: at the end ${shares.at(-1).map(percent).join(", ")}` }, cells,
    s("text", { class: "tick", x: 56, y: 14, "text-anchor": "end" }, "expert 0"), s("text", { class: "tick", x: 56, y: low - 2, "text-anchor": "end" }, String(experts - 1)),
    s("text", { class: "title", x: 62, y: low + 14 }, `step ${whole(step[0])}`), s("text", { class: "title", x: WIDE - 18, y: low + 14, "text-anchor": "end" }, whole(step.at(-1))));
  return h("section", {}, h("h2", { class: "title" }, title), svg, h("p", { class: "faint note" }, `strongest: ${percent(most)} of the tokens; evenly it would be ${percent(1 / experts)}`));
}
