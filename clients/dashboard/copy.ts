/** Copies the text of a button, or of the field that it names. */
export async function copyText(event: MouseEvent): Promise<void> {
  const button = (event.target as Element).closest<HTMLButtonElement>("button[data-copy], button[data-copy-text]");
  if (button === null) return;
  const field = document.getElementById(button.dataset.copy ?? "") as HTMLInputElement | null;
  const status = document.querySelector(`[data-copied="${button.dataset.copy}"]`);
  try {
    await navigator.clipboard.writeText(field?.value ?? button.dataset.copyText ?? "");
    if (status === null) confirmOn(button);
    else status.textContent = "Copied";
  } catch {
    field?.select();
    if (status !== null) status.textContent = "Press Ctrl+C to copy";
  }
}

const SHOWN_MS = 1_500;

function confirmOn(button: HTMLButtonElement): void {
  const { title } = button;
  button.title = "Copied";
  button.classList.add("plus");
  setTimeout(() => {
    button.title = title;
    button.classList.remove("plus");
  }, SHOWN_MS);
}
