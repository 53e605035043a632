// Memory as bars beside what accelerators have: of training at the peak of a step, of inference by format of weights.

import { h, s } from "./dom.js";
import { key, scale, ticks } from "./axes.js";
import { bytes, whole } from "./numbers.js";

const PURPOSES = [["weights", "weights", 1], ["gradients", "gradients", 2], ["optimiser", "optimiser state", 3], ["copies", "copies of weights", 4],
  ["activations", "activations", 5], ["logits", "logits", 6], ["temporaries", "temporaries", 7]];
const WIDE = 560, LEFT = 66, ROW = 24, BAR = 15;

/** Stacked bars: rows {name, pieces: [[colour, value, words]], total, note}, limits {value, name}. */
function bars(rows, limits, label) {
  const most = Math.max(...rows.map((row) => row.total), 1);
  // A limit far beyond all bars would make them dots: it is said in words below instead.
  const near = limits.filter((limit) => limit.value < most * 4);
  const end = Math.max(most * 1.28, ...near.map((limit) => limit.value * 1.04));
  const at = scale(0, end, LEFT, WIDE - 8), height = rows.length * ROW + 26 + 12 * near.length, low = rows.length * ROW + 6;
  const svg = s("svg", { viewBox: `0 0 ${WIDE} ${height}`, class: "chart", role: "img", "aria-label": label });
  for (const value of ticks(end, 5).filter((each) => each <= end)) {
    svg.append(s("line", { class: "grid", x1: at(value), x2: at(value), y1: 2, y2: low }),
      s("text", { class: "tick", x: at(value), y: low + 13, "text-anchor": "middle" }, value ? bytes(value) : "0"));
  }
  rows.forEach((row, number) => {
    const y = number * ROW + 6;
    svg.append(s("text", { class: "row", x: LEFT - 8, y: y + BAR - 3.5, "text-anchor": "end" }, row.name));
    let from = 0;
    for (const [colour, value, words] of row.pieces) {
      if (!value) continue;
      svg.append(s("rect", { class: `fill c${colour}`, x: at(from), y, width: Math.max(0.6, at(from + value) - at(from)), height: BAR }, s("title", {}, `${words}: ${bytes(value)}`)));
      from += value;
    }
    svg.append(s("text", { class: "value", x: at(row.total) + 6, y: y + BAR - 3.5 }, row.note));
  });
  near.forEach((limit, row) => svg.append(
    s("line", { class: "limit", x1: at(limit.value), x2: at(limit.value), y1: 0, y2: low + 2 }),
    s("text", { class: "limit", x: at(limit.value) + (at(limit.value) > WIDE / 2 ? 3 : -3), y: low + 27 + 12 * row, "text-anchor": at(limit.value) > WIDE / 2 ? "end" : "start" }, limit.name),
  ));
  return { svg, far: limits.filter((limit) => !near.includes(limit)) };
}

/** What a program gets of accelerators; those that give as much share a line. */
function limitsOf(accelerators) {
  const found = new Map();
  for (const each of accelerators) found.set(each.usable, [...(found.get(each.usable) ?? []), each.title]);
  return [...found].map(([value, titles]) => ({ value, name: titles.join(", ") })).sort((a, b) => a.value - b.value);
}

function beyond(far) {
  return far.length ? h("p", { class: "faint note" }, far.map((limit, number) => `${number ? "; " : ""}${limit.name} gives ${bytes(limit.value)}`)) : null;
}

/** Memory of inference, by format of the weights. */
export function inference(figures, accelerators) {
  const state = figures.state?.total ?? 0;
  const rows = Object.entries(figures.weights).map(([name, weights]) => ({
    name, total: weights + state, note: bytes(weights + state), pieces: [[1, weights, "weights"], [8, state, "decode state of the batch"]],
  }));
  const { svg, far } = bars(rows, limitsOf(accelerators), `memory of inference: ${rows.map((row) => `${row.name} ${row.note}`).join(", ")}`);
  return [svg, key([[1, "weights"], ...(state ? [[8, "decode state of the batch"]] : [])]), beyond(far)];
}

/** Memory of training at the peak of a step; `answer` null while it is traced. */
export function training(answer, accelerators, checkpointing) {
  if (answer === null) return [h("p", { class: "pending" }, h("i", { "aria-hidden": "true" }), "tracing what training saves …")];
  if (answer.error) return [h("p", { class: "faint note" }, answer.error)];
  if (!answer.memory) return [h("p", { class: "faint note" }, answer.why ?? "it cannot be traced here")];
  const memory = answer.memory;
  const row = { name: checkpointing === "none" ? "step" : checkpointing, total: memory.total, note: bytes(memory.total), pieces: PURPOSES.map(([name, words, colour]) => [colour, memory[name] ?? 0, words]) };
  const { svg, far } = bars([row], limitsOf(accelerators), `memory of training: ${bytes(memory.total)}`);
  const devices = Object.entries(answer.devices ?? {}).map(([name, number]) => `${number} × ${accelerators.find((one) => one.name === name)?.title ?? name}`);
  const shown = PURPOSES.filter(([name]) => memory[name]);
  return [svg, key(shown.map(([name, words, colour]) => [colour, `${words} ${bytes(memory[name])}`])), beyond(far),
    h("p", { class: "faint note", title: `${whole(memory.total)} bytes` }, devices.length ? `Spread evenly: ${devices.join(", ")}. ` : "", memory.moment ? `The peak: ${memory.moment}.` : "")];
}
