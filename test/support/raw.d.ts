/** A text file, as a test inside workerd imports it. */
declare module "*?raw" {
  const text: string;
  export default text;
}
