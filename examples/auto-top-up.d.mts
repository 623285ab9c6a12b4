interface Plan {
  readonly amount: number;
  readonly currency: string;
  readonly pack: string;
  readonly monthlyMax: number;
}
interface Store {
  customerOf(userId: string): Promise<{ customer: string; paymentMethod: string; isOff: boolean } | null>;
  reserve(key: string, userId: string, month: string, amount: number, monthlyMax: number): Promise<boolean>;
  release(key: string): Promise<void>;
  switchOff(userId: string, why: string): Promise<void>;
}
interface Payments {
  readonly paymentIntents: {
    search(params: { query: string }): Promise<{
      data: readonly { readonly status: string; readonly metadata: Readonly<Record<string, string>> }[];
    }>;
    create(params: object, options: { idempotencyKey: string }): Promise<{ status: string }>;
  };
}
interface Message {
  readonly type: string;
  readonly timestamp: string;
  readonly appId: string;
  readonly mode: string;
  readonly data: { readonly userId: string; readonly alertId: string; readonly seq: number };
}
export const PLAN: Plan;
export function topUp(message: Message, given: { stripe: Payments; store: Store; plan?: Plan }): Promise<string>;
