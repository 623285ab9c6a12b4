/** An icon of Lucide as SVG. */
declare module "lucide-static/dist/esm/icons/*.mjs" {
  const svg: string;
  export default svg;
}
