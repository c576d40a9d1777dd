// A page that is opened from a folder may start no worker. The search then runs in a frame, which stands for one.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget { // the search's script looks for this name
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inside = frame.contentWindow;
      inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = frame.contentDocument.createElement("script");
      script.src = url;
      this.ready = new Promise((done, failed) => { script.onload = done; script.onerror = failed; });
      frame.contentDocument.body.append(script);
      this.post = data => inside.dispatchEvent(new MessageEvent("message", { data }));
    }
    postMessage(data) {
      this.ready.then(() => this.post(data));
    }
  };
  window.Worker = window.IFrameWorker;
}
