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
      const { resolve, reject } = waiting.get(id) ?? {};
      waiting.delete(id);
      if (error) reject?.(new Error(error));
      else resolve?.({ lines });
    };
    port.postMessage({ page: [data, bytes("weights"), bytes("wasm")] });
    for (const { request } of waiting.values()) port.postMessage(request);
  }

  function connectPage() {
    const { port1, port2 } = new MessageChannel();
    answerRequests(port1);
    connect(port2);
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
    languages: async () => data.languages,
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
