declare module "autocannon" {
  type Result = { readonly non2xx: number; readonly errors: number; readonly timeouts: number };
  type Listener = (client: unknown, status: number, bytes: number, responseMs: number) => void;
  export default function autocannon(options: {
    readonly url: string;
    readonly connections: number;
    readonly amount: number;
    /** How often, in milliseconds, a run looks whether it is over. */
    readonly sampleInt: number;
    readonly requests: readonly object[];
  }): Promise<Result> & { on(event: "response", listener: Listener): unknown };
}
