// Answers of the server; without one, of the static site: files of sheets and an evaluator of changes.

const KEPT = 60;
const AGAIN = 400; // milliseconds
const answers = new Map();

/** A refusal in the words of the project: {path, message, set, suggestions, text} each. */
export class Refused extends Error {
  constructor(errors) {
    super(errors.map((each) => each.text || each.message).join("\n"));
    this.errors = errors;
  }
}

async function json(address, signal) {
  const answer = await fetch(address, { signal }).catch((error) => {
    if (error.name === "AbortError") throw error;
    throw new Refused([{ path: "", message: "The server does not answer: is `anyformer explore` still running?", set: null, suggestions: [] }]);
  });
  const text = await answer.text();
  let data = null;
  try {
    data = JSON.parse(text);
  } catch {
    throw new Refused([{ path: "", message: `${address}: no answer in JSON, status ${answer.status}`, set: null, suggestions: [] }]);
  }
  if (!answer.ok) throw new Refused(data.errors ?? [{ path: "", message: `${address}: status ${answer.status}`, set: null, suggestions: [] }]);
  return { data, status: answer.status };
}

/** Remembered answers, oldest first out, so that undo asks nothing. */
async function remembered(address, signal) {
  if (!answers.has(address)) {
    const { data } = await json(address, signal);
    answers.set(address, data);
    if (answers.size > KEPT) answers.delete(answers.keys().next().value);
  }
  return answers.get(address);
}

class Server {
  constructor(start) {
    this.start = start;
  }

  sheet(words, signal) {
    return remembered(`api/sheet?${words}`, signal);
  }

  figures(words, signal) {
    return remembered(`api/figures?${words}`, signal);
  }

  masks(words, signal) {
    return remembered(`api/masks?${words}`, signal);
  }

  compare(words, signal) {
    return remembered(`api/compare?${words}`, signal);
  }

  /** What may stand in every slot, the same for all sheets. */
  async kinds() {
    return (await json("api/kinds")).data;
  }

  /** What the search knows beside the entries: words of the field, and entries that a site lacks. */
  async searched() {
    return (await json("api/search")).data;
  }

  async runs(words, signal) {
    return (await json(`api/runs?${words}`, signal)).data;
  }

  /** What a model that is opened says: `open`, `attention`, `value`, `patch`, `samples`. */
  async model(what, words, signal) {
    const answer = await awaited(`api/${what}?${words}`, signal);
    if (answer.why) throw new Refused([{ path: "", message: answer.why, set: null, suggestions: [] }]);
    return answer;
  }

  async study(words, signal) {
    return (await json(`api/study?${words}`, signal)).data;
  }

  /** Traced memory, which is remembered. */
  async memory(words, signal) {
    const address = `api/memory?${words}`;
    if (!answers.has(address)) answers.set(address, await awaited(address, signal));
    return answers.get(address);
  }
}

/** An answer that takes longer, asked for again while it is pending. */
async function awaited(address, signal) {
  for (;;) {
    const { data, status } = await json(address, signal);
    if (status !== 202 && !data.pending) return data;
    await new Promise((done) => setTimeout(done, AGAIN));
    signal?.throwIfAborted();
  }
}

/** What gives the answers: the server, or in the static site, which says so in its page, the files beside it. */
export async function source() {
  if ("static" in document.documentElement.dataset) {
    const { open } = await import("./static.js");
    return open();
  }
  const { data } = await json("api/start");
  return new Server(data);
}
