// Draw each diagram in place of its text.
document.addEventListener("DOMContentLoaded", () => {
  const texts = document.querySelectorAll(".highlight-mermaid pre");
  texts.forEach(text => (text.textContent = text.textContent));
  mermaid.initialize({ startOnLoad: false, theme: "neutral" });
  mermaid.run({ nodes: texts });
});
