"use strict";
// What the page asks to translate: here the server that sent it. Each method answers with a promise, and fails with an
// Error whose message is for people. Methods that a backend lacks are null: the page then offers no files, and collects
// corrections itself, to be downloaded.
window.mtBackend = (() => {
  const token = document.querySelector("meta[name=mt-token]").content;

  async function ask(path, { type = {}, ...options } = {}) {
    for (let nTries = 1; ; nTries++) {
      const answer = await fetch(path, { ...options, headers: { "X-MT-Token": token, ...type } }).catch((error) => {
        throw error.name === "AbortError" ? error : new Error("The server does not answer. Is mt serve still running?");
      });
      if (answer.ok) return answer;
      const wait = answer.status === 503 && nTries < 4 && Number(answer.headers.get("Retry-After")); // too much waits already
      if (!wait) throw new Error(await answer.json().then(({ error }) => error, () => "The server answers " + answer.status + "."));
      await new Promise((resolve) => setTimeout(resolve, 1000 * wait));
      options.signal?.throwIfAborted();
    }
  }
  const send = async (path, value, signal) => {
    const answer = await ask(path, { method: "POST", signal, body: JSON.stringify(value), type: { "Content-Type": "application/json" } });
    return answer.json();
  };

  return {
    mostCharacters: Number(document.querySelector("meta[name=mt-most-characters]").content), // of a request
    languages: () => ask("languages").then((answer) => answer.json()), // [{ code, name, targets: [code] }]
    // { source, target, q, alternatives } -> { lines: [{ texts, estimate, is_low, doubts, source_words, target_words, attention }] }
    translate: (request, signal) => send("mt/translate", request, signal),
    correct: ({ text, ...correction }) => send("suggest", { ...correction, s: text }), // { source, target, q, text }
    async file(request, signal) { // { source, target, file, column }, of a table its column -> { name, blob }
      const body = new FormData();
      for (const [name, value] of Object.entries(request)) body.append(name, value);
      const { translatedFileUrl: url } = await ask("translate_file", { method: "POST", signal, body }).then((answer) => answer.json());
      const [path, name] = /download_file\/[^/]+\/(.+)/.exec(url);
      return { name: decodeURIComponent(name), blob: await ask(path, { signal }).then((answer) => answer.blob()) };
    },
  };
})();
