// Browsers start no worker for a page that was opened from a disk. The search is one: there, a
// hidden frame does its work.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.ready = new Promise((loaded) => {
        this.frame.addEventListener("load", () => {
          const inner = this.frame.contentWindow;
          const load = (from) =>
            new Promise((done) => {
              const script = inner.document.createElement("script");
              script.src = from;
              script.onload = done;
              inner.document.body.append(script);
            });
          inner.postMessage = (data) => {
            const event = new MessageEvent("message", { data });
            this.dispatchEvent(event);
            this.onmessage?.(event);
          };
          inner.importScripts = (...urls) => Promise.all(urls.map(load));
          load(new URL(url, location.href)).then(() => loaded(inner));
        }, { once: true });
      });
      document.body.append(this.frame);
    }

    postMessage(data) {
      this.ready.then((inner) => inner.dispatchEvent(new inner.MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
