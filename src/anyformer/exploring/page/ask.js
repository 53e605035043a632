// Answers of the server; without one, of the static site: files of sheets and an evaluator of changes.

const KEPT = 60;
const answers = new Map();

/** A refusal in the words of the project: {path, message, set, suggestions, text} each. */
export class Refused extends Error {
  constructor(errors) {
    super(errors.map((each) => each.text || each.message).join("\n"));
    this.errors = errors;
  }
}

async function json(address, signal) {
  const answer = await fetch(address, { signal });
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

  async runs(words, signal) {
    return (await json(`api/runs?${words}`, signal)).data;
  }

  async study(words, signal) {
    return (await json(`api/study?${words}`, signal)).data;
  }

  /** Traced memory, asked again while it is pending. */
  async memory(words, signal) {
    const address = `api/memory?${words}`;
    if (answers.has(address)) return answers.get(address);
    for (;;) {
      const { data, status } = await json(address, signal);
      if (status !== 202 && !data.pending) {
        answers.set(address, data);
        return data;
      }
      await new Promise((done) => setTimeout(done, 400));
      signal?.throwIfAborted();
    }
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
