declare module "autocannon" {
  interface Result {
    readonly requests: { readonly total: number };
    readonly latency: { readonly p50: number; readonly average: number };
    readonly non2xx: number;
    readonly errors: number;
    readonly timeouts: number;
  }
  export default function autocannon(options: {
    readonly url: string;
    readonly connections: number;
    readonly duration?: number;
    readonly amount?: number;
    readonly requests: readonly object[];
  }): Promise<Result>;
}
