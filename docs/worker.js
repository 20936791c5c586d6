// Search runs in a worker, which browsers refuse to pages read from the disk: there a hidden frame does the work.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      this.self = frame.contentWindow;
      this.self.postMessage = (data) => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        if (this.onmessage) this.onmessage(event);
      };
      this.self.importScripts = (...urls) => Promise.all(urls.map((u) => this.load(u)));
      this.load(url).then(() => {
        const waiting = this.waiting;
        this.waiting = null;
        waiting.forEach((data) => this.postMessage(data));
      });
    }

    load(url) {
      const script = this.self.document.createElement("script");
      script.src = new URL(url, location.href);
      const done = new Promise((resolve) => script.addEventListener("load", resolve));
      this.self.document.body.appendChild(script);
      return done;
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.self.dispatchEvent(new this.self.MessageEvent("message", { data }));
    }

    terminate() {
      this.self.frameElement.remove();
    }
  };
}
