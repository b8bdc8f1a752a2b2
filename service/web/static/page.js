// What a page does beyond links and forms: progress with a cancel button, copying, pictures as PNG.
"use strict";
(() => {
  const SHOWN_AFTER_MS = 300;
  const NARROW_PX = 960;
  const MOST_FOLLOWED = 4;
  let waiting = null;
  let source = null;

  const progress = (on) => {
    clearTimeout(waiting);
    const bar = document.getElementById("progress");
    if (!bar) return;
    if (!on) { bar.hidden = true; return; }
    waiting = setTimeout(() => { bar.hidden = false; }, SHOWN_AFTER_MS);
  };

  document.addEventListener("htmx:before:request", (event) => { source = event.target; progress(true); });
  for (const name of ["htmx:after:request", "htmx:error", "htmx:finally:request"]) {
    document.addEventListener(name, () => progress(false));
  }
  document.addEventListener("htmx:after:swap", () => {
    const result = document.getElementById("result");
    if (result) result.focus({ preventScroll: true });
    prepare();
  });

  document.addEventListener("click", async (event) => {
    const target = event.target.closest("button, a");
    if (!target) return;
    if (target.id === "cancel" && source) { source.dispatchEvent(new CustomEvent("htmx:abort")); progress(false); }
    if (target.classList.contains("copy")) {
      await navigator.clipboard.writeText(target.parentElement.querySelector("pre").textContent);
      target.textContent = "Copied";
    }
    if (target.classList.contains("copy-link")) {
      event.preventDefault();
      await navigator.clipboard.writeText(location.href);
      target.textContent = "Link copied";
    }
    if (target.classList.contains("png")) { event.preventDefault(); asPng(target.href); }
  }, true);

  document.addEventListener("submit", (event) => {
    for (const field of event.target.elements) if (field.name && !field.value) field.disabled = true;
    setTimeout(() => { for (const field of event.target.elements) field.disabled = false; });
  }, true);

  // A log that is dropped on the text field is read here; it is sent only when the form is.
  for (const name of ["dragover", "dragleave", "drop"]) {
    document.addEventListener(name, async (event) => {
      const field = event.target.closest && event.target.closest("textarea[data-drop]");
      if (!field) return;
      event.preventDefault();
      field.classList.toggle("dropping", name === "dragover");
      const file = name === "drop" && event.dataTransfer.files[0];
      if (file) field.value = await file.text();
    });
  }
  document.addEventListener("change", async (event) => {
    if (event.target.id !== "file" || !event.target.files[0]) return;
    document.getElementById("log").value = await event.target.files[0].text();
  });

  function asPng(address) {
    const image = new Image();
    image.onload = () => {
      const canvas = document.createElement("canvas");
      const scale = 2;
      canvas.width = image.naturalWidth * scale;
      canvas.height = image.naturalHeight * scale;
      const context = canvas.getContext("2d");
      context.scale(scale, scale);
      context.drawImage(image, 0, 0);
      canvas.toBlob((blob) => {
        const link = document.createElement("a");
        link.href = URL.createObjectURL(blob);
        link.download = "dryserve.png";
        link.click();
        URL.revokeObjectURL(link.href);
      });
    };
    image.src = address;
  }

  // Probes that run are followed by their events until they end; then the page shows their figures.
  let followed = [];
  function follow() {
    for (const source of followed) source.close();
    followed = [...document.querySelectorAll("tr[data-events]")].slice(0, MOST_FOLLOWED).map((row) => {
      const source = new EventSource(row.dataset.events);
      source.addEventListener("probe", (event) => {
        const probe = JSON.parse(event.data);
        row.querySelector(".state").textContent = probe.state;
        row.querySelector(".words").textContent = probe.waiting || probe.reason || probe.phase || "";
      });
      source.addEventListener("end", () => { source.close(); location.reload(); });
      return source;
    });
  }

  function prepare() {
    follow();
    const form = document.querySelector(".answered .ask");
    if (form && innerWidth <= NARROW_PX) form.open = false;
    if (navigator.clipboard) for (const button of document.querySelectorAll(".copy")) button.hidden = false;
    for (const link of document.querySelectorAll(".png, .copy-link")) link.parentElement.hidden = false;
  }
  document.addEventListener("DOMContentLoaded", prepare);
})();
