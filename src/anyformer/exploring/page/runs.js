// Runs: curves of several with their bands, what experts carry, samples, predictions beside measurements.

import { around, frame, key, powers, through, ticks } from "./axes.js";
import { fill, h, s } from "./dom.js";
import { marked, spaced } from "./fields.js";
import { bytes, change, count, percent, seconds, three, whole } from "./numbers.js";

const WIDE = 560, HIGH = 250;

/** A chart of lines {name, colour, points: [[x, y]], low, high}: bands where `low` and `high` are given by point. */
export function curves(title, lines, { logarithmic = false, across = "step", say = three } = {}) {
  const points = lines.flatMap((line) => line.points).filter(([, y]) => Number.isFinite(y) && (!logarithmic || y > 0));
  if (!points.length) return null;
  const edges = lines.flatMap((line) => [...(line.low ?? []), ...(line.high ?? [])]).filter((each) => Number.isFinite(each) && (!logarithmic || each > 0));
  const [low, high] = logarithmic ? around([...points.map(([, y]) => y), ...edges], true) : tight([...points.map(([, y]) => y), ...edges]);
  const last = Math.max(...points.map(([x]) => x), 1), first = Math.min(...points.map(([x]) => x));
  const x = { from: Math.min(0, first), to: last, ticks: ticks(last, 5), says: whole, title: across };
  const y = { from: low, to: high, log: logarithmic, ticks: logarithmic ? powers(low, high, 10, 6) : ticks(high - low, 5).map((each) => low + each), says: say };
  const ends = lines.filter((line) => line.points.length).map((line) => `${line.name}: ${say(line.points.at(-1)[1])} at ${across} ${whole(line.points.at(-1)[0])}`);
  const { svg, x: atX, y: atY } = frame({ width: WIDE, height: HIGH, x, y, label: `${title}. ${ends.join("; ")}`, left: 56, right: 18 });
  for (const line of lines) {
    const places = line.points.map(([at, value]) => (Number.isFinite(value) && (!logarithmic || value > 0) ? [atX(at), atY(value)] : null));
    if (line.low) {
      const over = line.points.map(([at], i) => [atX(at), atY(line.high[i])]), under = line.points.map(([at], i) => [atX(at), atY(line.low[i])]).reverse();
      svg.append(s("path", { class: `band c${line.colour}`, d: `${through([...over, ...under])}Z` }));
    }
    svg.append(s("path", { class: `line c${line.colour}${line.dashed ? " dashed" : ""}`, d: through(places) }, s("title", {}, line.name)));
    if (places.length === 1 && places[0]) svg.append(s("circle", { class: `fill c${line.colour}`, cx: places[0][0], cy: places[0][1], r: 3 }));
  }
  return h("section", {}, h("h2", { class: "title" }, title), svg, lines.length > 1 ? key(lines.map((line) => [line.colour, line.name])) : null);
}

/** The span of values, a little wider. */
function tight(values) {
  const low = Math.min(...values), high = Math.max(...values), room = 0.06 * (high - low || Math.abs(high) || 1);
  return [low - room, high + room];
}

/** Loads of experts over steps: a cell per expert and step, the share of tokens that go to it. */
export function loads(title, experts) {
  const canvas = h("canvas", { role: "img", "aria-label": `${title}: shares of ${experts.loads[0]?.length ?? 0} experts over ${experts.steps.length} measurements` });
  canvas.width = experts.steps.length;
  canvas.height = experts.loads[0]?.length ?? 1;
  const paint = canvas.getContext("2d"), image = paint.createImageData(canvas.width, canvas.height), most = Math.max(...experts.loads.flat(), 1e-9);
  experts.loads.forEach((row, step) => row.forEach((load, expert) => image.data.set([36, 82, 127, Math.round((255 * load) / most)], 4 * (expert * canvas.width + step))));
  paint.putImageData(image, 0, 0);
  return h("section", { class: "loads" }, h("h2", { class: "title" }, title), canvas, h("p", { class: "faint note" }, `steps to the right, experts downwards; darkest is ${percent(most)} of the tokens`));
}

export class RunsView {
  constructor(app) {
    this.app = app;
    this.element = h("div", { class: "runs" });
  }

  show(answer) {
    const { runs } = answer;
    const names = [...new Set(runs.flatMap((run) => Object.keys(run.series ?? {})))];
    fill(this.element, h("div", { class: "about" }, h("h1", {}, runs.length === 1 ? runs[0].title : `${runs.length} runs`)), this.table(runs),
      h("div", { class: "numbers" }, (answer.bands ?? []).map((band) => this.banded(band)), names.map((name) => this.series(name, runs)),
        runs.flatMap((run) => (run.experts ?? []).map((each) => loads(`${run.title}: ${each.title ?? each.name ?? "experts"}`, each))), this.samples(runs)));
  }

  showPart() {}

  table(runs) {
    const facts = [...new Set(runs.flatMap((run) => [...Object.keys(run.predicted ?? {}), ...Object.keys(run.measured ?? {})]))];
    return h("div", { class: "scrolled", tabindex: "0", role: "group", "aria-label": "runs" }, h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "run"), h("th", { scope: "col" }, "state"), h("th", { scope: "col", class: "number" }, "step"),
      facts.map((fact) => h("th", { scope: "col", class: "number" }, spaced(fact), h("small", {}, " measured / predicted"))))),
    h("tbody", {}, runs.map((run, number) => h("tr", {}, h("th", { scope: "row" }, h("i", { class: `dot c${1 + (number % 8)}`, "aria-hidden": "true" }), run.title), h("td", {}, run.state), h("td", { class: "number" }, `${whole(run.step)} of ${whole(run.steps)}`),
      facts.map((fact) => h("td", { class: "number" }, measured(fact, run.measured?.[fact], run.predicted?.[fact]))))))));
  }

  series(name, runs) {
    const lines = runs.map((run, number) => ({ name: run.title, colour: 1 + (number % 8), points: run.series?.[name] ?? [] })).filter((line) => line.points.length);
    const values = lines.flatMap((line) => line.points.map(([, y]) => y)), positive = values.every((value) => value > 0);
    return curves(spaced(name), lines, { logarithmic: positive && Math.max(...values) > 50 * Math.min(...values) });
  }

  banded(band) {
    const lines = band.lines.map((line, number) => ({ name: line.name, colour: 1 + (number % 8), points: line.points.map(([step, , middle]) => [step, middle]), low: line.points.map((point) => point[1]), high: line.points.map((point) => point[3]) }));
    return curves(spaced(band.name), lines);
  }

  samples(runs) {
    const said = runs.filter((run) => run.samples?.length);
    if (!said.length) return null;
    return h("section", { class: "samples" }, h("h2", { class: "title" }, "samples over time"), said.map((run) => {
      const shown = h("pre", {}), at = h("output", {});
      const slider = h("input", { type: "range", min: "0", max: String(run.samples.length - 1), value: String(run.samples.length - 1), "aria-label": `sample of ${run.title}` });
      const take = () => {
        const sample = run.samples[Number(slider.value)];
        at.value = `step ${whole(sample.step)}`;
        shown.textContent = sample.text;
      };
      slider.addEventListener("input", take);
      take();
      return h("figure", {}, h("figcaption", {}, ...marked(run.title)), h("p", { class: "sliding" }, slider, at), shown);
    }));
  }
}

/** A measurement beside its prediction. */
function measured(fact, value, predicted) {
  const say = /bytes|memory/.test(fact) ? bytes : /seconds|time/.test(fact) ? seconds : count;
  const both = typeof value === "number" && typeof predicted === "number";
  return [typeof value === "number" ? say(value) : "–", " / ", typeof predicted === "number" ? say(predicted) : "–", both ? h("small", {}, ` ${change(predicted, value)}`) : null];
}
