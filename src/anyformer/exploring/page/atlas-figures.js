// What topics draw: losses beyond the trained length, masks, and curves of activations.

import { frame, through } from "./axes.js";
import { drawn } from "./diagram.js";
import { h, s } from "./dom.js";
import { entryLink } from "./entry-link.js";
import { percent, whole } from "./numbers.js";

const spaced = (name) => name.replaceAll("_", " ");

/** Labels at the ends of lines, moved apart so that none covers another. */
function apart(labels, gap, low, high) {
  const sorted = [...labels].sort((a, b) => a.y - b.y);
  sorted.forEach((each, at) => {
    if (at) each.y = Math.max(each.y, sorted[at - 1].y + gap);
  });
  const over = (sorted.at(-1)?.y ?? 0) - high;
  if (over > 0) for (let at = sorted.length - 1; at >= 0; at -= 1) sorted[at].y = Math.min(sorted[at].y, high - gap * (sorted.length - 1 - at));
  return sorted.map((each) => ({ ...each, y: Math.max(each.y, low) }));
}

/** A study's metric by length, a line per arm; the first length is the trained one. */
export function lengths(study) {
  const means = study.arms.flatMap((arm) => arm.means), room = 0.05 * (Math.max(...means) - Math.min(...means));
  const low = Math.min(...means) - room, high = Math.max(...means) + room, [from] = study.lengths, to = study.lengths.at(-1);
  const steps = [0, 1, 2, 3, 4].map((at) => low + (at * (high - low)) / 4);
  const x = { from, to, log: true, ticks: study.lengths, says: whole, title: "positions" };
  const y = { from: low, to: high, ticks: steps, says: (value) => value.toFixed(2), title: study.metric };
  const label = `${study.title} ${study.metric} by length: ${study.arms.map((arm) => `${spaced(arm.name)} ${arm.means.map((mean, at) => `${mean.toFixed(2)} at ${study.lengths[at]}`).join(", ")}`).join("; ")}`;
  const { svg, x: atX, y: atY, edges } = frame({ width: 460, height: 250, x, y, label, left: 42, right: 112, top: 16 });
  svg.append(s("line", { class: "limit", x1: atX(study.trained), x2: atX(study.trained), y1: edges.top, y2: edges.bottom }), s("text", { class: "limit", x: atX(study.trained) + 4, y: edges.top + 8 }, "trained"));
  const ends = apart(study.arms.map((arm, number) => ({ name: spaced(arm.name), number, y: atY(arm.means.at(-1)) })), 13, edges.top, edges.bottom);
  study.arms.forEach((arm, number) => {
    svg.append(s("path", { class: `line c${1 + (number % 8)}`, d: through(arm.means.map((mean, at) => [atX(study.lengths[at]), atY(mean)])) }));
    arm.means.forEach((mean, at) => svg.append(s("circle", { class: `fill c${1 + (number % 8)}`, cx: atX(study.lengths[at]), cy: atY(mean), r: 2.8 }, s("title", {}, `${spaced(arm.name)}: ${mean.toFixed(3)} at ${study.lengths[at]}`))));
  });
  for (const end of ends) svg.append(s("text", { class: `end c${1 + (end.number % 8)}`, x: edges.right + 7, y: end.y + 4 }, end.name));
  return h("section", {}, h("h2", { class: "title" }, study.title), svg, h("p", { class: "note faint" }, `${whole(study.parameters)} parameters, ${study.seeds} seeds, our study ${study.name}; ${study.better} is better.`));
}

/** Masks as squares: queries downwards, keys to the right. */
export function masks(pictures) {
  return h("section", {}, h("h2", { class: "title" }, "which keys a query sees: queries downwards, keys to the right"), h("div", { class: "masks small" }, pictures.map((picture, number) => {
    const side = picture.rows.length;
    const cells = picture.rows.flatMap((row, y) => [...row].map((digit, x) => (digit === "0" ? null : s("rect", { class: `fill c${1 + (number % 8)}`, x, y, width: 1.02, height: 1.02, opacity: 0.25 + Number(digit) / 12 }))));
    return h("figure", {}, s("svg", { viewBox: `0 0 ${side} ${side}`, class: "mask", role: "img", "aria-label": `${picture.title}: ${percent(picture.share)} of the pairs at ${whole(picture.length)} positions` }, cells),
      h("figcaption", {}, h("strong", {}, picture.title), h("small", {}, entryLink(picture.entry), `, ${picture.layers}, ${percent(picture.share)} of the pairs at ${whole(picture.length)}`)));
  })));
}

/** Curves of activations over x, small and side by side. */
export function curves(found) {
  const high = 3, low = -1;
  return h("section", {}, h("h2", { class: "title" }, "y over x; what an activation learns is at its initial value"), h("ul", { class: "multiples" }, found.map((curve) => {
    const x = { from: curve.low, to: curve.high, ticks: [-4, -2, 0, 2], says: String }, y = { from: low, to: high, ticks: [-1, 0, 1, 2, 3], says: String };
    const { svg, x: atX, y: atY } = frame({ width: 200, height: 130, x, y, label: `${curve.name} from ${curve.low} to ${curve.high}`, left: 24, right: 6, bottom: 20 });
    const step = (curve.high - curve.low) / (curve.values.length - 1);
    svg.append(s("path", { class: "line c1", d: through(curve.values.map((value, at) => (value > high || value < low ? null : [atX(curve.low + at * step), atY(value)]))) }));
    return h("li", {}, h("h3", {}, curve.name, curve.title.toLowerCase() === curve.name ? null : h("small", {}, ` ${curve.title}`)), svg);
  })));
}


/** Diagrams of models that have what the topic is about, to look at: here their parts do not open. */
export function diagrams(pictures) {
  return h("section", {}, h("h2", { class: "title" }, "diagrams, from the input at the bottom to the output"), h("div", { class: "diagrams" }, pictures.map((picture) => {
    const drawing = drawn(picture.svg);
    for (const part of drawing.querySelectorAll("[data-part]")) for (const name of ["tabindex", "role", "aria-label", "data-part"]) part.removeAttribute(name);
    drawing.setAttribute("role", "img");
    drawing.setAttribute("aria-label", `diagram of ${picture.entry}`);
    return h("figure", {}, drawing, h("figcaption", {}, entryLink(picture.entry, `open ${picture.entry}`)));
  })));
}
