// A study: its question, its arms with what they cost and reach, every trial.

import { curves } from "./curves.js";
import { fill, h } from "./dom.js";
import { spaced } from "./fields.js";
import { bytes, count, flops, three, whole } from "./numbers.js";

const COSTS = [["parameters", count], ["flops", flops], ["state_bytes_per_token", bytes], ["predicted_bytes", bytes], ["tokens_per_second", count]];

export class StudyView {
  constructor(app) {
    this.app = app;
    this.element = h("div", { class: "runs" });
  }

  show(answer) {
    const { report } = answer;
    fill(this.element, h("div", { class: "about" }, h("h1", {}, answer.title), report?.question && report.question !== answer.title ? h("p", { class: "facts" }, report.question) : null, report === null ? h("p", { class: "warning" }, "It goes on: its report comes at its end.") : null),
      h("div", { class: "numbers" }, report ? [arms(report), ...learning(report), comparisons(report)] : [], trials(answer), (report?.notes ?? []).map((note) => h("p", { class: "faint note" }, String(note)))));
  }

  showPart() {}
}

function mean(numbers) {
  const values = Object.values(numbers ?? {}).filter((value) => typeof value === "number");
  return values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null;
}

function arms(report) {
  const costs = COSTS.filter(([name]) => report.arms.some((arm) => typeof arm.costs?.[name] === "number"));
  return h("section", { class: "wide" }, h("h2", { class: "title" }, "arms"), h("div", { class: "scrolled", tabindex: "0", role: "group", "aria-label": "arms" }, h("table", {},
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "arm"), h("th", { scope: "col", class: "number" }, spaced(String(report.metric ?? "quality"))), h("th", { scope: "col", class: "number" }, "seeds"), costs.map(([name]) => h("th", { scope: "col", class: "number" }, spaced(name))))),
    h("tbody", {}, report.arms.map((arm, number) => h("tr", {}, h("th", { scope: "row" }, h("i", { class: `dot c${1 + (number % 8)}`, "aria-hidden": "true" }), arm.name),
      h("td", { class: "number" }, mean(arm.numbers) === null ? "–" : three(mean(arm.numbers))), h("td", { class: "number" }, Object.keys(arm.numbers ?? {}).length), costs.map(([name, say]) => h("td", { class: "number" }, typeof arm.costs[name] === "number" ? say(arm.costs[name]) : "–"))))))));
}

/** The curves of all arms: a line per seed in the colour of its arm. */
function learning(report) {
  const lines = report.arms.flatMap((arm, number) => Object.entries(arm.curves ?? {}).map(([seed, points]) => ({ name: `${arm.name}, seed ${seed}`, colour: 1 + (number % 8), points, marks: true })));
  return lines.length ? [curves(spaced(String(report.metric ?? "loss")), lines, { across: "tokens" })] : [];
}

function comparisons(report) {
  if (!report.comparisons?.length) return null;
  const plain = report.comparisons.map((each) => Object.fromEntries(Object.entries(each).filter(([, value]) => typeof value !== "object" || value === null)));
  const heads = [...new Set(plain.flatMap(Object.keys))];
  return h("section", { class: "wide" }, h("h2", { class: "title" }, "comparisons"), h("div", { class: "scrolled", tabindex: "0", role: "group", "aria-label": "comparisons" }, h("table", {}, h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col" }, spaced(head))))),
    h("tbody", {}, plain.map((each) => h("tr", {}, heads.map((head) => h("td", {}, typeof each[head] === "number" ? three(each[head]) : String(each[head] ?? "–")))))))));
}

function trials(answer) {
  const link = (run) => `#${new URLSearchParams({ run })}`;
  return h("section", { class: "wide" }, h("h2", { class: "title" }, "trials"), answer.trials.length > 1 ? h("p", {}, h("a", { href: `#${new URLSearchParams(answer.trials.slice(0, 16).map((each) => ["run", each.run]))}` }, "curves of all")) : null,
    h("table", {}, h("thead", {}, h("tr", {}, ["trial", "state", "step"].map((head) => h("th", { scope: "col" }, head)))),
      h("tbody", {}, answer.trials.map((each) => h("tr", {}, h("th", { scope: "row" }, h("a", { href: link(each.run) }, each.title)), h("td", {}, each.state), h("td", {}, `${whole(each.step)} of ${whole(each.steps)}`))))));
}
