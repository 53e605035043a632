// A topic's page: what there is and since when, what it costs, what was measured and claimed; every sentence with its source.

import { fill, h } from "./dom.js";
import { entryLink } from "./entry-link.js";
import { marked } from "./fields.js";
import { curves, diagrams, lengths, masks } from "./atlas-figures.js";
import { trend, chart } from "./atlas-trends.js";
import { Filters } from "./atlas-filters.js";

const FOLDED = new Set(["Parts that no model here has", "What lecture notes claim, tested", "Every kind"]);
const VERDICTS = { holds: ["✓", "holds"], fails: ["✗", "does not hold"], open: ["?", "cannot tell"] };

/** Where a sentence comes from: what it is, its papers, and what shows it. */
function source(from) {
  const shown = from.page || from.command;
  return h("span", { class: "cited" }, " [", from.cited, (from.kind === "study" ? [] : from.papers).map((paper) => ["; ", h("a", { href: paper.url, rel: "noreferrer" }, paper.said)]), shown ? ["; ", h("code", { title: from.command || null }, shown)] : null, "]");
}

function sentence(each) {
  const verdict = VERDICTS[each.verdict];
  return h("p", { class: `told ${each.source.kind}` }, verdict ? h("span", { class: `verdict ${each.verdict}`, title: verdict[1] }, h("span", { "aria-hidden": "true" }, verdict[0]), h("span", { class: "unseen" }, `${verdict[1]}: `)) : null, marked(each.text), source(each.source));
}

const PAPERS = "https://arxiv.org/abs/";

/** Text whose numbers of arXiv are links. */
function linked(text) {
  return text.split(/(\d{4}\.\d{5})/).map((piece, number) => (number % 2 ? h("a", { href: PAPERS + piece, rel: "noreferrer" }, piece) : piece));
}

function item(data, each) {
  const { mechanism } = each, from = each.since === null ? null : h("span", { class: "since" }, each.since);
  const title = mechanism === null ? each.title : h("a", { href: `#atlas/tree/${encodeURIComponent(`has=${data.mechanisms[mechanism].name}`)}`, title: "those that have it, in the tree" }, each.title);
  return h("article", { class: "item" }, each.title ? h("h3", {}, from, title) : null, each.note ? h("p", { class: "told note faint" }, linked(each.note)) : null, each.sentences.map(sentence));
}

/** What changes of one value cost, each priced when the page was asked for. */
function costs(page) {
  const heads = page.costs[0].costs.map((each) => each.what);
  const told = (ratio) => (ratio === null || Math.abs(ratio - 1) < 0.001 ? "" : ratio >= 2 || ratio <= 0.5 ? ` ×${Number(ratio.toPrecision(3))}` : ` ${ratio > 1 ? "+" : "−"}${(100 * Math.abs(ratio - 1)).toFixed(1)} %`);
  return h("div", { class: "scrolled", tabindex: "0", role: "group", "aria-label": "costs" }, h("table", { class: "costs" }, h("caption", {}, entryLink(page.base), " with one value changed, 4,096 tokens in bf16"),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "change"), heads.map((each) => h("th", { scope: "col", class: "number" }, each)))),
    h("tbody", {}, h("tr", {}, h("th", { scope: "row" }, "as it is"), page.costs[0].costs.map((each) => h("td", { class: "number" }, each.left))),
      page.costs.map((change, at) => h("tr", {}, h("th", { scope: "row" }, entryLink(page.base, change.said, commandOf(page, at), change.set)), change.costs.map((each) => h("td", { class: "number" }, each.right, h("small", { class: each.ratio > 1 ? "moved more" : "moved less" }, told(each.ratio)))))))));
}

const commandOf = (page, at) => page.sections.find((each) => each.title === "What it costs").items[0].sentences[at].source.command;

function section(data, page, each) {
  const items = each.items.map((own) => item(data, own));
  if (each.title === "What it costs") return h("section", {}, h("h2", {}, each.title), costs(page), h("details", {}, h("summary", {}, "in sentences, with the commands"), items));
  if (FOLDED.has(each.title)) return h("section", {}, h("details", { open: each.title === "Every kind" }, h("summary", {}, h("h2", {}, each.title), h("small", {}, ` ${each.items.reduce((sum, own) => sum + own.sentences.length, 0)} sentences`)), items));
  return h("section", {}, h("h2", {}, each.title), items);
}

/** Shares over the years of the topic's mechanisms that are drawn. */
function shares(data, page) {
  const entries = new Filters(data).entries(), all = entries.map((each) => each.numbers.year), from = Math.min(...all), to = Math.max(...all);
  const own = data.mechanisms.map((each, number) => [each, number]).filter(([each]) => each.topic === page.name && each.trend);
  if (!own.length) return null;
  return h("section", {}, h("h2", { class: "title" }, "share of the families with a new model in a year"), h("ul", { class: "multiples" }, own.map(([each, number]) => h("li", {}, h("h3", {}, each.name), chart(each.name, trend(data, entries, number), from, to)))));
}

export function draw(place, data, page) {
  const figures = [page.lengths.map(lengths), page.masks.length ? masks(page.masks) : null, page.curves.length ? curves(page.curves) : null, page.diagrams.length ? diagrams(page.diagrams) : null, shares(data, page)];
  fill(place, h("div", { class: "topic" }, h("div", { class: "about" }, h("h1", {}, page.title), h("p", { class: "question" }, page.question)), h("div", { class: "text" }, page.sections.map((each) => section(data, page, each))),
    h("aside", { class: "figures", "aria-label": "figures" }, figures)));
}
