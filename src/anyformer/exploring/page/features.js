// Sparse dictionaries beside a model that is opened: the features that are active at the chosen token, what they make likelier,
// and where in the text one of them is active.

import { h, fill } from "./dom.js";
import { refusal } from "./fields.js";
import { three, whole } from "./numbers.js";
import { scrolled, shaded, visible } from "./tokens.js";

export class Features {
  constructor(view) {
    this.view = view;
    this.dictionaries = [];
    this.chosen = null;
    this.asked = new Map();
    this.list = h("div", {});
    this.active = h("div", {});
    this.where = h("div", {});
    this.element = h("div", { class: "features" }, this.list, this.active, this.where);
  }

  /** The dictionaries that were opened; of the one that is shown the token is asked about again. */
  show(dictionaries) {
    this.dictionaries = dictionaries;
    if (!dictionaries.some((each) => each.of === this.chosen && !each.why)) this.chosen = dictionaries.find((each) => !each.why)?.of ?? null;
    this.asked.delete(this.where);
    fill(this.where);
    fill(this.list, dictionaries.length ? h("section", { class: "wide" }, h("h2", { class: "title" }, "sparse dictionaries"), dictionaries.map((each) => this.line(each))) : null);
    this.again();
  }

  line(each) {
    const title = this.view.app.title(each.of);
    if (each.why) return h("div", {}, h("code", {}, title), refusal({ message: each.why }, () => undefined));
    return h("p", {}, h("button", { type: "button", class: "quiet", "data-key": `dictionary-${each.of}`, "aria-pressed": String(each.of === this.chosen), onclick: () => this.choose(each.of) }, h("code", {}, title)), ` ${whole(each.features)} features of `, each.read.map((path) => [h("code", {}, path), " "]));
  }

  choose(of) {
    this.chosen = of;
    this.show(this.dictionaries);
  }

  /** A value was opened: the dictionary that reads it is shown, if there is one. */
  open(path) {
    const found = this.dictionaries.find((each) => each.read.includes(path));
    if (found && found.of !== this.chosen) this.choose(found.of);
  }

  /** Ask about the chosen token. */
  again() {
    if (this.chosen === null) return fill(this.active);
    return this.answered(this.active, "features", {}, (found) => [
      h("h2", { class: "title" }, `${whole(found.count)} of ${whole(found.features)} features are active at token ${this.view.at}, “${visible(this.view.answer.tokens[this.view.at].text)}”`),
      scrolled("features", h("table", { class: "active-features" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "feature"), h("th", { scope: "col", class: "number" }, "activation"), h("th", { scope: "col" }, found.streamed ? "makes likelier" : "does not write into the stream"))),
        h("tbody", {}, found.active.map((each) => h("tr", {}, h("th", { scope: "row" }, h("button", { type: "button", class: "quiet", "data-key": `feature-${each.feature}`, onclick: () => this.feature(each.feature) }, String(each.feature))), shaded(each.activation, each.activation / found.active[0].activation), h("td", {}, each.tokens.map((token) => [h("code", {}, visible(token)), " "]))))))),
    ]);
  }

  /** Where in the text a feature is active. */
  feature(number) {
    return this.answered(this.where, "feature", { feature: String(number) }, (found) => {
      const most = Math.max(...found.activations, 1e-9);
      return [
        h("h2", { class: "title" }, `feature ${number} in the text`),
        found.tokens.length ? h("p", {}, "makes likelier: ", found.tokens.map((token) => [h("code", {}, visible(token)), " "])) : null,
        h("p", { class: "fired" }, found.activations.map((value, at) => {
          const token = h("span", { class: "shaded", title: `position ${at}: ${three(value)}` }, visible(this.view.answer.tokens[at].text));
          token.style.setProperty("--share", value / most);
          return token;
        })),
        scrolled("where the feature is active", h("table", {}, h("thead", {}, h("tr", {}, ["token", "position", "activation"].map((name) => h("th", { scope: "col", class: name === "token" ? null : "number" }, name)))),
          h("tbody", {}, found.activations.map((value, at) => [value, at]).filter(([value]) => value > 0).map(([value, at]) => h("tr", {}, h("th", { scope: "row" }, visible(this.view.answer.tokens[at].text)), h("td", { class: "number" }, at), shaded(value, value / most)))))),
      ];
    });
  }

  /** Fill a place with an answer, unless another one was asked for meanwhile. */
  async answered(place, what, more, drawn) {
    const mine = {};
    this.asked.set(place, mine);
    let inside;
    try {
      inside = drawn(await this.view.app.source.model(what, this.view.words({ dictionary: this.chosen, position: String(this.view.at), ...more })));
    } catch (error) {
      inside = refusal(error.errors?.[0] ?? error, () => undefined);
    }
    if (this.asked.get(place) === mine) fill(place, h("section", { class: "wide" }, inside));
  }
}
