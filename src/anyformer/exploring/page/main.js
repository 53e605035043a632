// The page begins: the source of its answers, search, tools and keys.

import { App } from "./app.js";
import { source } from "./ask.js";
import { fill, h, say, the } from "./dom.js";
import { alone, beside, swapped } from "./question.js";
import { Search } from "./search.js";
import { coloured, copying, keys, listening, scheme, share, tools } from "./tools.js";

/** To the first of several places that is there. */
const to = (...selectors) => () => {
  const place = selectors.map(the).find(Boolean);
  place?.focus();
  place?.scrollIntoView({ block: "nearest" });
};

async function begin() {
  coloured(localStorage.getItem("scheme"));
  const app = new App(await source());
  let next = false;
  const search = new Search(the("#search"), app.start, (name, shift) => {
    const besides = (next || shift) && app.history.present.models.length;
    next = false;
    app.go(besides ? beside(app.history.present, name) : alone(app.history.present, [{ of: name, set: [] }]));
  }, () => app.source.searched());
  const runs = app.start.opened.filter((each) => each.kind === "run"), study = app.start.opened.find((each) => each.kind === "study");
  the("#pages").append(...[
    runs.length ? h("a", { href: `#${new URLSearchParams(runs.map((run) => ["run", run.of]))}` }, runs.length > 1 ? "runs" : "run") : null,
    study ? h("a", { href: `#${new URLSearchParams({ study: study.of })}` }, "study") : null,
  ].filter(Boolean));
  app.beside = () => {
    next = true;
    search.input.focus();
    say("choose what to open beside");
  };
  tools(the("#tools"), app);
  the("#skip").addEventListener("click", (event) => {
    event.preventDefault();
    the("#main").focus();
  });
  const repaint = () => app.view?.masks?.show && app.shown && ((app.view.masks.drawn = ""), app.again());
  addEventListener("scheme", repaint);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  listening({
    "/": () => search.input.focus(), u: () => app.history.undo(), r: () => app.history.redo(), b: () => app.beside(), x: () => app.history.present.models.length > 1 && app.go(swapped(app.history.present)), c: () => copying(app.forms()), s: share, n: () => app.step(1), p: () => app.step(-1),
    o: () => app.openPart(null), d: to("#diagram [data-part][tabindex='0']", "#diagram"), v: to("#part"), f: to("#figures"), t: () => scheme(the("#tools")), "?": keys,
  });
  await app.show(app.history.present, null);
}

begin().catch((error) => {
  fill(the("#main"), h("div", { class: "wrong" }, h("h1", {}, "No answer"), h("p", { role: "alert" }, error.message)));
});
