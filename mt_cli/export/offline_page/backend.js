"use strict";
// What the page asks to translate: the translators in this very file, which run in the page and let it breathe.
window.mtBackend = (() => {
  const content = (id) => document.getElementById(id).textContent;
  const bytes = (id) => {
    const text = atob(content(id));
    const found = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) found[i] = text.charCodeAt(i);
    return found;
  };
  const data = JSON.parse(content("data"));
  let translators = null;
  return {
    async languages() { // a browser that is too old fails here, and the page says so
      translators = loadTranslators(data, bytes("weights"), bytes("wasm"));
      return data.languages;
    },
    async translate({ source, target, q, alternatives = 0 }, signal) {
      let last = -Infinity;
      const pause = async () => {
        if (performance.now() - last < 15) return;
        await new Promise((resolve) => setTimeout(resolve));
        signal?.throwIfAborted();
        last = performance.now();
      };
      const lines = [];
      for (const line of q.split("\n")) lines.push(await translators.get(`${source}-${target}`).translate(line, 1 + alternatives, pause));
      return { lines };
    },
    correct: null,
    file: null,
  };
})();
