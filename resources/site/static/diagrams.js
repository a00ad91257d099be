// Draw each diagram in place of its text.
document.addEventListener("DOMContentLoaded", () => {
  const texts = document.querySelectorAll(".highlight-mermaid pre");
  texts.forEach(text => (text.textContent = text.textContent));
  const flowchart = { nodeSpacing: 16, rankSpacing: 24, padding: 8 };
  mermaid.initialize({ startOnLoad: false, theme: "neutral", flowchart });
  mermaid.run({ nodes: texts });
});
