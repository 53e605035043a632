// A classic script, which browsers run from a file too, where they refuse modules.

if (location.protocol === "file:") {
  document.querySelector("#waiting").textContent = "Opened as a file, a browser shows nothing here. Run `python -m http.server --bind 127.0.0.1 8642` in this folder, and open 127.0.0.1:8642 instead.";
}
