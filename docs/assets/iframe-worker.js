/* Browsers refuse workers on pages that are opened as files. Search then runs in a hidden frame
   that speaks like a worker: it takes messages, and posts them back. */
(function () {
  if (location.protocol !== "file:") return;

  class FrameWorker extends EventTarget {
    constructor(url) {
      super();
      const address = new URL(url, document.baseURI).href;
      const base = address.replace(/[^/]*$/, "");
      this.waiting = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.srcdoc =
        "<script>" +
        `var __base = ${JSON.stringify(base)};` +
        "function importScripts() {" +
        "  return Promise.all([].map.call(arguments, function (name) {" +
        "    return new Promise(function (done, failed) {" +
        "      var script = document.createElement('script');" +
        "      script.src = new URL(name, __base).href;" +
        "      script.onload = done; script.onerror = failed;" +
        "      document.head.appendChild(script);" +
        "    });" +
        "  }));" +
        "}" +
        "var postMessage = function (data) { parent.postMessage({ frameWorker: data }, '*'); };" +
        "addEventListener('error', function (e) { console.error(e.message); });" +
        "</" + "script>" +
        `<script src=${JSON.stringify(address)}></` + "script>";
      window.addEventListener("message", (event) => {
        if (event.source !== this.frame.contentWindow) return;
        const told = new MessageEvent("message", { data: event.data.frameWorker });
        this.dispatchEvent(told);
        if (this.onmessage) this.onmessage(told);
      });
      this.frame.addEventListener("load", () => {
        this.ready = true;
        this.waiting.splice(0).forEach((data) => this.postMessage(data));
      });
      document.body.appendChild(this.frame);
    }

    postMessage(data) {
      const told = () => new MessageEvent("message", { data: data });
      if (this.ready) this.frame.contentWindow.dispatchEvent(told());
      else this.waiting.push(data);
    }

    terminate() {
      this.frame.remove();
    }
  }

  window.Worker = FrameWorker;
  window.IFrameWorker = FrameWorker; // the search script asks for this name
})();
