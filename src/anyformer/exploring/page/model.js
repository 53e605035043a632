// A model opened by a text: its tokens, what the head would say already after each layer, what adds to the logit of the token
// that is asked about, where every head looks, the values of a part, and what of one text restores that logit in another.

import { Refused } from "./ask.js";
import { h, fill, s } from "./dom.js";
import { Features } from "./features.js";
import { refusal } from "./fields.js";
import { percent, three, whole } from "./numbers.js";
import { ofText } from "./question.js";
import { scrolled, shaded, visible } from "./tokens.js";

const SCORES = ["previous", "duplicate", "induction", "first", "own"];
const FIELDS = { against: "patched into", wanted: "answer token", other: "less that of", position: "at position" };

/** What is told of a text, of another text that it is patched into, of sparse dictionaries beside the model, and of what its
 * checkpoints write, each where it was asked for. */
export async function answered(source, question, kind, signal) {
  const { of, text, against } = question, found = { answer: null, patch: null, beside: null, samples: null, error: null };
  const asked = async (place, what, words = ofText(question)) => {
    try {
      found[place] = await source.model(what, new URLSearchParams(words), signal);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      found.error ??= error.errors[0];
    }
  };
  if (text) await asked("answer", "open");
  if (text && against) await asked("patch", "patch");
  if (text) await asked("beside", "dictionaries", { of });
  if (text && kind === "run") await asked("samples", "samples");
  return found;
}

export class ModelView {
  constructor(app) {
    this.app = app;
    this.answer = null;
    this.at = null;
    this.text = h("textarea", { id: "model-text", rows: "2", spellcheck: "false" });
    this.fields = Object.fromEntries(Object.keys(FIELDS).map((name) => [name, h("input", { id: `model-${name}`, type: "text", autocomplete: "off", spellcheck: "false", "data-key": `model-${name}` })]));
    this.head = h("div", { class: "about" });
    this.tokens = h("div", { class: "tokens", role: "group", "aria-label": "tokens" });
    this.body = h("div", { class: "numbers" });
    this.detail = h("div", { class: "numbers" });
    this.features = new Features(this);
    this.likeliest = h("p", { class: "likeliest" });
    const open = h("form", { class: "model-form", onsubmit: (event) => {
      event.preventDefault();
      this.go({});
    } }, h("p", {}, h("label", { for: "model-text" }, "text"), this.text), Object.entries(this.fields).map(([name, field]) => h("p", { class: name === "against" ? null : "short" }, h("label", { for: field.id }, FIELDS[name]), field)), h("button", { class: "main" }, "open"), this.likeliest);
    this.element = h("div", { class: "model" }, this.head, open, this.tokens, this.detail, this.features.element, this.body);
  }

  /** Ask what the fields say, some of them said anew. */
  go(more) {
    const fields = Object.fromEntries(Object.entries(this.fields).map(([name, field]) => [name, field.value]));
    this.app.go({ ...this.question, text: this.text.value, ...fields, ...more });
  }

  /** `answer`: of the text; the others are null where they were not asked for. */
  show({ answer, patch, samples, beside, error }, question) {
    this.question = question;
    if (document.activeElement !== this.text) this.text.value = question.text;
    for (const [name, field] of Object.entries(this.fields)) if (document.activeElement !== field) field.value = question[name];
    fill(this.head, h("h1", {}, this.app.title(question.of)), error ? refusal(error, () => undefined) : null);
    if (answer !== this.answer) {
      fill(this.detail);
      this.path = null;
      this.at = answer?.asked?.position ?? (answer?.tokens.length ?? 1) - 1;
    }
    this.answer = answer;
    this.draw();
    this.features.show(answer ? (beside?.dictionaries ?? []) : []);
    fill(this.likeliest, answer?.asked ? ["likeliest there: ", answer.asked.likeliest.map((token) => h("button", { type: "button", class: "token", disabled: !token.named, "aria-pressed": String(token.text === answer.asked.wanted), onclick: () => this.go({ wanted: token.text }) }, visible(token.text)))] : null);
    fill(this.body, answer ? [this.lens(answer), answer.attribution ? shares(answer) : null, this.heads(answer)] : [], patch ? restored(patch) : null, samples ? written(samples) : null);
  }

  showPart() {}

  draw() {
    fill(this.tokens, (this.answer?.tokens ?? []).map((token, number) => h("button", { type: "button", class: "token", "data-key": `token-${number}`, "aria-pressed": String(number === this.at), title: `token ${token.id}, position ${number}`, onclick: () => {
      this.at = number;
      this.draw();
      this.features.again();
      if (this.path) this.value(this.path);
    } }, visible(token.text))));
  }

  /** What the head would say after every layer, at every position; a cell opens the value there. */
  lens({ lens, tokens, asked }) {
    if (!lens) return null;
    const named = this.question.wanted !== "";
    const rows = lens.paths.map((path, layer) => h("tr", {}, h("th", { scope: "row" }, h("code", {}, path)), tokens.map((_, at) => {
      const share = lens.probabilities[layer][at][0], cell = h("td", {}, h("button", { type: "button", class: "cell", title: `${visible(lens.likeliest[layer][at][0])} ${percent(share)}; “${visible(lens.says[at])}” has ${percent(lens.wanted[layer][at])} and is number ${whole(lens.rank[layer][at] + 1)} here; ${three(lens.entropy[layer][at])} nats of entropy${lens.difference ? `; its logit less that of “${visible(asked.other)}” is ${three(lens.difference[layer][at])}` : ""}`, onclick: () => {
        this.at = at;
        this.draw();
        this.features.again();
        this.value(path);
      } }, visible(lens.likeliest[layer][at][0])));
      cell.style.setProperty("--share", named ? lens.wanted[layer][at] : share);
      return cell;
    })));
    return h("section", { class: "wide" }, h("h2", { class: "title" }, `what the head would say after each layer, the darker the likelier ${named ? `“${visible(asked.wanted)}”` : "that"} is`), scrolled("lens", h("table", { class: "lens" },
      h("thead", {}, h("tr", {}, h("td", {}), tokens.map((token) => h("th", { scope: "col" }, visible(token.text))))), h("tbody", {}, rows))));
  }

  /** Scores of heads; a path opens where its heads look. */
  heads({ heads }) {
    if (!heads?.length) return null;
    return h("section", { class: "wide" }, h("h2", { class: "title" }, "heads, by where they look in this text"), scrolled("heads", h("table", { class: "heads" }, h("thead", {}, h("tr", {}, ["attention", "head", ...SCORES].map((name) => h("th", { scope: "col", class: name === "attention" ? null : "number" }, name)))),
      h("tbody", {}, heads.map((each) => h("tr", {}, h("th", { scope: "row" }, h("button", { type: "button", class: "quiet", onclick: () => this.attention(each.path, each.head) }, h("code", {}, each.path))), h("td", { class: "number" }, each.head),
        SCORES.map((name) => shaded(each[name] ?? 0, each[name] ?? 0))))))));
  }

  async asked(what, ask) {
    try {
      fill(this.detail, await ask());
    } catch (error) {
      fill(this.detail, h("section", { class: "wide" }, h("h2", { class: "title" }, what), refusal(error.errors?.[0] ?? error, () => undefined)));
    }
    this.detail.scrollIntoView({ block: "nearest" });
  }

  words(more) {
    return String(new URLSearchParams({ ...ofText(this.question), ...more }));
  }

  attention(path, head) {
    return this.asked(path, async () => {
      const found = await this.app.source.model("attention", this.words({ path: path.endsWith(".weights") ? path : `${path}.weights` }));
      const pictures = found.heads.map((cells, number) => looks(cells, found, number, this.answer.tokens, number === head));
      return h("section", { class: "wide" }, h("h2", { class: "title" }, `where the heads of ${path} look: queries downwards, keys to the right`), h("div", { class: "looks" }, pictures));
    });
  }

  value(path) {
    this.path = path;
    this.features.open(path);
    return this.asked(path, async () => {
      const found = await this.app.source.model("value", this.words({ path, position: String(this.at) }));
      return h("section", { class: "wide" }, h("h2", { class: "title" }, `${path} at token ${this.at}, “${visible(this.answer.tokens[this.at].text)}”`), h("p", { class: "faint note" }, `${found.about ?? ""} ${found.letters ? `(${[found.letters].flat().join(", ")})` : ""}: ${found.shape.map(whole).join(" × ")}; size ${three(found.norms[this.at] ?? 0)}`),
        h("table", {}, h("thead", {}, h("tr", {}, ["feature", "value"].map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, found.strongest.map((each) => h("tr", {}, h("th", { scope: "row" }, each.at.join(", ")), h("td", {}, three(each.value)))))));
    });
  }
}


/** Where one head looks. */
function looks(cells, { queries, keys }, number, tokens, chosen) {
  const shares = Uint8Array.from(atob(cells), (letter) => letter.charCodeAt(0)), size = Math.max(3, Math.min(12, 220 / Math.max(queries, keys)));
  const marks = [];
  shares.forEach((share, at) => {
    const query = Math.floor(at / keys), key = at % keys;
    if (share > 5) marks.push(s("rect", { class: "fill c1", x: key * size, y: query * size, width: size, height: size, opacity: share / 255 }, s("title", {}, `${visible(tokens[query]?.text ?? "")} → ${visible(tokens[key]?.text ?? "")}: ${percent(share / 255)}`)));
  });
  return h("figure", { class: chosen ? "chosen" : null }, s("svg", { class: "look", viewBox: `0 0 ${keys * size} ${queries * size}`, width: keys * size, height: queries * size, role: "img", "aria-label": `head ${number}` }, marks), h("figcaption", {}, `head ${number}`));
}

/** What every sublayer and head adds to what is asked about. */
function shares({ attribution, asked }) {
  const rows = [...attribution.shares, ...(attribution.others ? [[`${attribution.others} more`, attribution.of_others]] : []), ["not additive", attribution.rest], ["in all", attribution.logit]];
  const most = Math.max(...attribution.shares.map(([, share]) => Math.abs(share)), 1e-9);
  return h("section", { class: "wide" }, h("h2", { class: "title" }, `what adds to the ${asked.about} at token ${asked.position}`), scrolled("attribution", h("table", { class: "attribution" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "part"), h("th", { scope: "col", class: "number" }, "share"))),
    h("tbody", {}, rows.map(([name, share]) => h("tr", {}, h("th", { scope: "row" }, h("code", {}, name)), shaded(share, Math.abs(share) / most)))))));
}

/** How far values of the first text, put into the second, restore what is asked about: by position, and by head. */
function restored(patch) {
  return h("section", { class: "wide" }, h("h2", { class: "title" }, `patched: how much of the ${patch.about} at token ${patch.position} comes back`), h("p", { class: "note" }, `with the text ${three(patch.clean)}, with the other one ${three(patch.corrupted)}${patch.remark ? `; ${patch.remark}` : ""}`),
    grid("patched", patch.stream, patch.tokens.map((token) => visible(token))), patch.heads ? grid("patched heads", patch.heads, patch.heads.restored.reduce((most, row) => (row.length > most.length ? row : most), []).map((_, head) => `head ${head}`)) : null);
}

function grid(name, { paths, restored }, columns) {
  return scrolled(name, h("table", { class: "lens" }, h("thead", {}, h("tr", {}, h("td", {}), columns.map((column) => h("th", { scope: "col" }, column)))),
    h("tbody", {}, paths.map((path, layer) => h("tr", {}, h("th", { scope: "row" }, h("code", {}, path)), restored[layer].map((share) => shaded(share, share)))))));
}

/** What every kept checkpoint writes behind the text. */
function written({ samples }) {
  if (!samples.length) return null;
  return h("section", { class: "wide" }, h("h2", { class: "title" }, "what its checkpoints write behind the text"), h("dl", { class: "keys" }, samples.map((each) => h("div", {}, h("dt", {}, `step ${whole(each.step)}`), h("dd", {}, h("pre", {}, each.text))))));
}
