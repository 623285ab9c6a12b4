declare module "autocannon" {
  interface Result {
    readonly non2xx: number;
    readonly errors: number;
    readonly timeouts: number;
  }
  interface Run extends Promise<Result> {
    on(event: "response", heard: (client: unknown, status: number, bytes: number, responseMs: number) => void): unknown;
  }
  export default function autocannon(options: {
    readonly url: string;
    readonly connections: number;
    readonly amount: number;
    /** How often, in milliseconds, a run looks whether it is over. */
    readonly sampleInt: number;
    readonly requests: readonly object[];
  }): Run;
}
