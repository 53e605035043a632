// The atlas: the catalogue as a whole. Addresses: #atlas, #atlas/tree, #atlas/trends, #atlas/models, #atlas/topics/NAME; filters
// follow behind tree, trends and models: #atlas/trends/shape=decoder-only/year=2022-2026. #atlas/NAME leads to a topic.

import { Refused } from "./ask.js";
import { fill, h } from "./dom.js";
import { Filters, FilterPanel } from "./atlas-filters.js";

const VIEWS = [["tree", "family tree"], ["trends", "trends"], ["models", "models"]];
let reading = null;

/** What is at an address of the server, or in a file of the static site. */
async function read(address) {
  const answer = await fetch(address);
  const data = await answer.json().catch(() => null);
  if (answer.ok && data !== null) return data;
  const message = `${address}: status ${answer.status}`;
  throw new Refused(data?.errors ?? [{ path: "", message, set: null, suggestions: [], text: message }]);
}

/** The catalogue as a whole, read once: what `anyformer atlas --json` prints. */
function atlas(fixed) {
  reading ??= read(fixed ? "atlas.json" : "api/atlas").catch((error) => {
    reading = null;
    throw error;
  });
  return reading;
}

function styled() {
  if (document.querySelector("link[href='./atlas.css']")) return Promise.resolve();
  return new Promise((done) => {
    const link = h("link", { rel: "stylesheet", href: "./atlas.css", onload: done, onerror: done });
    document.head.append(link);
  });
}

/** Draw the atlas into an element; `parts`: the words of the address behind #atlas; `fixed`: whether this is the static site. */
export async function show(place, parts, fixed = false) {
  let [view = "", ...words] = parts.map(decodeURIComponent);
  fill(place, h("p", { class: "waiting", role: "status" }, "Reading the catalogue …"));
  const [data] = await Promise.all([atlas(fixed), styled()]);
  if (data.topics.some((each) => each.name === view)) {
    [view, words] = ["topics", [view]];
    history.replaceState(history.state, "", `#atlas/topics/${encodeURIComponent(words[0])}`);
  }
  const main = h("div", { class: `atlas-${view || "start"}` });
  fill(place, navigation(data, view, words), main);
  if (view === "topics" && words[0]) return topic(main, data, words[0], fixed);
  if (VIEWS.some(([name]) => name === view)) return filtered(main, data, view, words);
  return start(main, data);
}

function navigation(data, view, words) {
  const link = (href, said, now) => h("li", {}, h("a", { href, "aria-current": now ? "page" : null }, said));
  return h("nav", { class: "atlas-nav", "aria-label": "atlas" },
    h("ul", {}, link("#atlas", "atlas", view === ""), VIEWS.map(([name, said]) => link(`#atlas/${name}`, said, view === name))),
    h("ul", { "aria-label": "topics" }, data.topics.map((each) => link(`#atlas/topics/${each.name}`, each.title.toLowerCase(), view === "topics" && words[0] === each.name))));
}

async function start(place, data) {
  const { multiples } = await import("./atlas-trends.js");
  const years = data.entries.map((each) => each.numbers.year);
  document.title = "atlas · anyformer";
  fill(place, h("div", { class: "about" }, h("h1", {}, "Atlas of the catalogue"),
    h("p", { class: "facts" }, `${data.entries.length} models of ${data.families.length} families, ${Math.min(...years)} to ${Math.max(...years)}, read from their descriptions: `,
      h("a", { href: "#atlas/tree" }, "the family tree"), ", ", h("a", { href: "#atlas/trends" }, "trends"), ", ", h("a", { href: "#atlas/models" }, "all models by their columns"), ", and pages by topic, each sentence with its source.")),
  h("ul", { class: "topics" }, data.topics.map((each) => h("li", {}, h("a", { href: `#atlas/topics/${each.name}` }, h("strong", {}, each.title), h("span", {}, each.question))))),
  h("h2", {}, "What changed"), multiples(data, new Filters(data), START));
}

/** Those that the first page draws, by name. */
const START = ["RMSNorm", "rotary positions (RoPE)", "grouped-query attention (GQA)", "mixtures of experts", "SwiGLU", "layers without positions (NoPE)", "tied embeddings", "biases of networks", "sliding windows", "QK-norm"];

async function filtered(place, data, view, words) {
  const modules = { tree: "./atlas-tree.js", trends: "./atlas-trends.js", models: "./atlas-models.js" };
  const { draw } = await import(modules[view]);
  const filters = Filters.read(data, words), canvas = h("div", { class: "atlas-canvas" });
  document.title = `${VIEWS.find(([name]) => name === view)[1]} · atlas · anyformer`;
  const again = () => {
    history.replaceState(history.state, "", ["#atlas", view, ...filters.words().map(encodeURIComponent)].join("/"));
    draw(canvas, data, filters);
  };
  const panel = new FilterPanel(data, filters, again);
  fill(place, h("div", { class: "filtered" }, h("details", { class: "filterbox", open: matchMedia("(min-width: 721px)").matches }, h("summary", {}, "filters"), panel.element), canvas));
  draw(canvas, data, filters);
}

async function topic(place, data, name, fixed) {
  const { draw } = await import("./atlas-topic.js");
  const page = await read(fixed ? `topics/${encodeURIComponent(name)}.json` : `api/topics/${encodeURIComponent(name)}`);
  document.title = `${page.title} · atlas · anyformer`;
  draw(place, data, page);
}
