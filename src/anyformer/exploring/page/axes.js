// Axes of charts: places of values, ticks with few labels, a frame that a chart draws into.

import { s } from "./dom.js";

/** The place of a value on an axis between two places; `log` for logarithms, which show no value below `from`. */
export function scale(from, to, low, high, log = false) {
  const f = log ? Math.log : (value) => value;
  const start = f(from), span = f(to) - start || 1;
  return (value) => low + ((f(log ? Math.max(value, from * 1e-3) : value) - start) / span) * (high - low);
}

/** Round values from 0 to at least `most`, in about so many steps. */
export function ticks(most, steps = 4) {
  const rough = most / steps, power = 10 ** Math.floor(Math.log10(rough || 1));
  const step = power * ([1, 2, 2.5, 5, 10].find((times) => times * power >= rough * 0.999) ?? 10);
  const found = [];
  for (let value = 0; value <= most * 1.0001; value += step) found.push(value);
  return found;
}

/** Powers of `base` from at most `low` to at least `high`, thinned to at most so many. */
export function powers(low, high, base = 10, most = 7) {
  const first = Math.floor(Math.log(low) / Math.log(base) + 1e-9), last = Math.ceil(Math.log(high) / Math.log(base) - 1e-9);
  const every = Math.max(1, Math.ceil((last - first + 1) / most));
  const found = [];
  for (let power = first; power <= last; power += every) found.push(base ** power);
  return found;
}

/** Low and high of an axis around values: whole powers of `base` where it is logarithmic. */
export function around(values, log = false, base = 10) {
  const low = Math.min(...values), high = Math.max(...values);
  if (!log) return [Math.min(0, low), high || 1];
  return [base ** Math.floor(Math.log(low) / Math.log(base)), base ** Math.ceil(Math.log(high) / Math.log(base) + 1e-9)];
}

/**
 * A chart's frame. x and y: {from, to, log, ticks, says, title}. Gives the drawing, the places x(value) and y(value), and the
 * edges of the field, to which a chart appends its marks.
 */
export function frame({ width, height, x, y, label, left = 52, right = 12, top = 10, bottom = 34 }) {
  const edges = { left, top, right: width - right, bottom: height - bottom };
  const at = {
    x: scale(x.from, x.to, edges.left, edges.right, x.log),
    y: scale(y.from, y.to, edges.bottom, edges.top, y.log),
  };
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart", role: "img", "aria-label": label });
  const inside = (value, axis) => value >= axis.from * (axis.log ? 0.999 : 1) - 1e-12 && value <= axis.to * 1.001;
  for (const value of y.ticks.filter((each) => inside(each, y))) {
    const place = at.y(value);
    svg.append(
      s("line", { class: "grid", x1: edges.left, x2: edges.right, y1: place, y2: place }),
      s("text", { class: "tick", x: edges.left - 6, y: place + 3.5, "text-anchor": "end" }, y.says(value)),
    );
  }
  for (const value of x.ticks.filter((each) => inside(each, x))) {
    const place = at.x(value);
    svg.append(
      s("line", { class: "grid", x1: place, x2: place, y1: edges.top, y2: edges.bottom }),
      s("text", { class: "tick", x: place, y: edges.bottom + 14, "text-anchor": "middle" }, x.says(value)),
    );
  }
  svg.append(s("line", { class: "axis", x1: edges.left, x2: edges.right, y1: edges.bottom, y2: edges.bottom }));
  if (x.title) svg.append(s("text", { class: "title", x: (edges.left + edges.right) / 2, y: height - 4, "text-anchor": "middle" }, x.title));
  if (y.title) svg.append(s("text", { class: "title", x: 2, y: 8 }, y.title));
  return { svg, x: at.x, y: at.y, edges };
}

/** The path through points [x, y]; a break where one is null. */
export function through(points) {
  let pen = "M";
  return points.map((point) => {
    if (point === null) {
      pen = "M";
      return "";
    }
    const piece = `${pen}${point[0].toFixed(1)} ${point[1].toFixed(1)}`;
    pen = "L";
    return piece;
  }).join("");
}

/** A list of what colours mean, below a chart: [class or number, words, dashed]. */
export function key(entries) {
  const list = document.createElement("ul");
  list.className = "key";
  for (const [colour, words, form] of entries) {
    const item = document.createElement("li"), swatch = document.createElement("i");
    swatch.className = form ?? "";
    swatch.style.setProperty("--colour", `var(--c${colour})`);
    item.append(swatch, words);
    list.append(item);
  }
  return list;
}
