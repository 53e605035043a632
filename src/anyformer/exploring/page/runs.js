// Runs: curves of several with their bands, what experts carry, events, predictions beside measurements.

import { curves, loads } from "./curves.js";
import { fill, h } from "./dom.js";
import { spaced } from "./fields.js";
import { bytes, change, count, percent, seconds, three, whole } from "./numbers.js";
import { alone } from "./question.js";

const SAYS = { memory: bytes, tokens_per_second: count, mfu: percent, seconds, flops: count, learning_rate: (value) => String(Number(value.toPrecision(2))) };
const ALWAYS_LINEAR = ["mfu", "memory", "tokens_per_second"];

export class RunsView {
  constructor(app) {
    this.app = app;
    this.across = "step";
    this.element = h("div", { class: "runs" });
  }

  show(answer, question) {
    this.answer = answer;
    this.question = question;
    const { runs } = answer, names = [...new Set(runs.flatMap((run) => Object.keys(run.series)))];
    fill(this.element,
      h("div", { class: "about" }, h("h1", {}, runs.length === 1 ? runs[0].title : `${runs.length} runs`)),
      this.table(runs), this.axis(),
      h("div", { class: "numbers" }, names.map((name) => this.series(name, answer)), this.evaluations(runs), runs.flatMap((run) => experts(run, runs.length > 1)), runs.map((run) => predictions(run)), runs.map((run) => events(run))));
  }

  showPart() {}

  table(runs) {
    const open = (run) => (event) => {
      event.preventDefault();
      this.app.go(alone(this.question, [{ of: run.run, set: [] }]));
    };
    return h("div", { class: "scrolled", tabindex: "0", role: "group", "aria-label": "runs" }, h("table", { class: "of-runs" },
      h("thead", {}, h("tr", {}, ["run", "state", "step", "loss", "tokens/s", "left", ""].map((head) => (head ? h("th", { scope: "col" }, head) : h("td", {}))))),
      h("tbody", {}, runs.map((run, number) => h("tr", {}, h("th", { scope: "row" }, h("i", { class: `dot c${1 + (number % 8)}`, "aria-hidden": "true" }), run.title),
        h("td", {}, run.state, run.reason ? h("small", {}, ` ${run.reason}`) : null), h("td", {}, `${whole(run.step)} of ${whole(run.steps)}`), h("td", {}, said(run.series.loss?.mean.at(-1), three)),
        h("td", {}, said(run.tokens_per_second, count)), h("td", {}, said(run.left, seconds)), h("td", {}, h("a", { href: "#", onclick: open(run) }, "its architecture")))))));
  }

  axis() {
    const select = h("select", { id: "across", "data-key": "across", onchange: (event) => {
      this.across = event.target.value;
      this.show(this.answer, this.question);
    } }, ["step", "tokens"].map((name) => h("option", { value: name, selected: name === this.across }, name)));
    return h("p", { class: "sliding" }, h("label", { for: "across" }, "curves over"), select);
  }

  /** A curve of all runs, and of seeds their mean with its band. */
  series(name, { runs, bands }) {
    const told = new Set(bands.flatMap((band) => (band.series[name] ? band.runs : [])));
    const lines = [
      ...bands.map((band, number) => this.line(`${band.runs.length} seeds`, counted(band, name, runs), 1 + (number % 8))),
      ...runs.map((run, number) => (told.has(run.run) ? null : this.line(run.title, run.series[name], 1 + (number % 8)))),
    ].filter(Boolean);
    const values = lines.flatMap((line) => line.points.map(([, y]) => y)).filter(Number.isFinite);
    const logarithmic = !ALWAYS_LINEAR.includes(name) && values.every((value) => value > 0) && Math.max(...values) > 30 * Math.min(...values);
    return curves(spaced(name), lines, { logarithmic, across: this.across, say: SAYS[name] ?? three });
  }

  line(name, series, colour) {
    if (!series?.step.length) return null;
    const at = series[this.across] ?? series.step;
    return { name, colour, points: at.map((x, i) => [x, series.mean[i]]), low: series.low, high: series.high };
  }

  evaluations(runs) {
    const lines = runs.map((run, number) => ({ name: run.title, colour: 1 + (number % 8), marks: true, points: run.evaluations.filter((each) => each.loss !== undefined).map((each) => [each[this.across] ?? each.step, each.loss]) })).filter((line) => line.points.length);
    return lines.length ? curves("loss on held-out text", lines, { across: this.across }) : null;
  }
}

/** A band's series with the tokens of one of its runs, which read as many in a step. */
function counted(band, name, runs) {
  const series = band.series[name], like = runs.find((run) => band.runs.includes(run.run))?.series[name];
  return like?.step.length === series?.step.length ? { ...series, tokens: like?.tokens } : series;
}

const said = (value, say) => (typeof value === "number" && Number.isFinite(value) ? say(value) : "–");

function experts(run, several) {
  return Object.entries(run.experts ?? {}).map(([layer, of]) => loads(`experts of ${layer}${several ? `, ${run.title}` : ""}`, of.step ?? [], of.shares ?? []));
}

/** Predictions beside measurements, of a run that is over. */
function predictions(run) {
  const figures = Object.entries(run.predicted?.figures ?? {});
  if (!figures.length) return null;
  return h("section", {}, h("h2", { class: "title" }, `predicted and measured, ${run.title}`), h("table", {}, h("thead", {}, h("tr", {}, h("td", {}), ["predicted", "measured", "measured is"].map((head) => h("th", { scope: "col", class: "number" }, head)))),
    h("tbody", {}, figures.map(([name, of]) => h("tr", {}, h("th", { scope: "row" }, spaced(name)), [of.predicted, of.measured].map((value) => h("td", { class: "number" }, said(value, SAYS[name] ?? count))), h("td", { class: "number" }, typeof of.predicted === "number" && typeof of.measured === "number" ? change(of.predicted, of.measured) || "equal" : "–"))))),
  (run.predicted.notes ?? []).map((note) => h("p", { class: "faint note" }, note)));
}

function events(run) {
  if (!run.events?.length) return null;
  return h("section", {}, h("h2", { class: "title" }, `events, ${run.title}`), h("ul", {}, run.events.slice(-30).map((event) => {
    const { kind, step, ...rest } = event;
    return h("li", {}, h("strong", {}, spaced(String(kind))), typeof step === "number" ? ` at step ${whole(step)} ` : " ", h("small", {}, Object.entries(rest).map(([name, value]) => `${spaced(name)} ${typeof value === "object" ? JSON.stringify(value) : value}`).join(", ").slice(0, 200)));
  })));
}
