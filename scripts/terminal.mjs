const plain = !process.stdout.isTTY || process.env.NO_COLOR !== undefined;
const style = (code) => (text) => (plain ? String(text) : `\u001b[${code}m${text}\u001b[0m`);

export const bold = style("1");
export const dim = style("2");
export const green = style("32");
export const yellow = style("33");
export const cyan = style("36");
