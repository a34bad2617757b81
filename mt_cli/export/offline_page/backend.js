"use strict";
// What the page asks to translate: the translators in this very file. They run in a worker, which gets its code and data
// from here since a page that was opened as a file can load nothing; or in the page, where a browser refuses the worker.
window.mtBackend = (() => {
  const content = (id) => document.getElementById(id).textContent;
  const bytes = (id) => {
    const text = atob(content(id));
    const found = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) found[i] = text.charCodeAt(i);
    return found;
  };
  const data = JSON.parse(content("data"));
  const waiting = new Map(); // requests that have no answer yet
  let [port, nRequests] = [null, 0];

  function connect(other) {
    port = other;
    port.onmessage = ({ data: { id, lines, error } }) => {
      for (const [key, { resolve, reject }] of [...waiting]) {
        if (id !== undefined && key !== id) continue; // an error without id is one of all
        waiting.delete(key);
        if (error) reject(new Error(error));
        else resolve({ lines });
      }
    };
    const weights = bytes("weights");
    port.postMessage({ page: { data, weights, wasm: bytes("wasm") } }, [weights.buffer]);
    for (const { request } of waiting.values()) port.postMessage(request);
  }

  function connectPage() {
    const channel = new MessageChannel();
    answerRequests(channel.port1);
    connect(channel.port2);
  }

  try {
    const code = new Blob([content("engine"), "\nanswerRequests(self);"], { type: "text/javascript" });
    const worker = new Worker(URL.createObjectURL(code));
    worker.onerror = connectPage;
    connect(worker);
  } catch {
    connectPage();
  }

  return {
    async languages() {
      const names = new Map(data.directions.flatMap(({ source, target, names: [from, to] }) => [[source, from], [target, to]]));
      const targets = (code) => data.directions.filter(({ source }) => source === code).map(({ target }) => target);
      return [...names].map(([code, name]) => ({ code, name, targets: targets(code) }));
    },
    translate: ({ source, target, q, alternatives = 0 }, signal) => new Promise((resolve, reject) => {
      const request = { id: nRequests++, direction: `${source}-${target}`, lines: q.split("\n"), nTexts: 1 + alternatives };
      waiting.set(request.id, { request, resolve, reject });
      port.postMessage(request);
      signal?.addEventListener("abort", () => {
        waiting.delete(request.id);
        port.postMessage({ id: request.id });
        reject(signal.reason);
      });
    }),
    isInWorker: () => port instanceof Worker,
    correct: null,
    file: null,
  };
})();
