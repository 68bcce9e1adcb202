// Browsers start no workers for pages opened from a folder. There the search runs in a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.srcdoc = "<!doctype html><title>search</title>";
      frame.onload = () => {
        const inside = frame.contentWindow;
        inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
        const script = inside.document.createElement("script");
        script.src = url;
        script.onload = () => {
          this.inside = inside;
          this.waiting.forEach((data) => this.postMessage(data));
        };
        inside.document.body.append(script);
      };
      document.addEventListener("DOMContentLoaded", () => document.body.append(frame));
      if (document.body) document.body.append(frame);
    }
    postMessage(data) {
      if (this.inside) this.inside.dispatchEvent(new MessageEvent("message", { data }));
      else this.waiting.push(data);
    }
    terminate() {}
  };
}
