(() => {
  "use strict";
  const held = document.getElementById("downloads-data");
  if (!held) return;
  const files = JSON.parse(held.textContent);
  const said = document.getElementById("downloads-status");

  async function save(name) {
    const packed = Uint8Array.from(atob(files[name]), (letter) => letter.charCodeAt(0));
    const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    // The mark at the start is for spreadsheets that would not take the file for UTF-8 without it.
    const content = new Blob(["\ufeff", await new Response(unpacked).blob()], { type: "text/csv;charset=utf-8" });
    const link = document.createElement("a");
    link.href = URL.createObjectURL(content);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    said.textContent = `${name} saved`;
  }

  for (const button of document.querySelectorAll("button[data-download]")) {
    button.disabled = false;
    button.addEventListener("click", () =>
      save(button.dataset.download).catch(() => {
        said.textContent = `This browser cannot unpack ${button.dataset.download}: take it from the run folder's tables/.`;
      }),
    );
  }
})();
