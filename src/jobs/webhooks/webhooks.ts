import type { Config } from '../../process/config.ts';
import { SecretBox } from '../../webhooks/secrets.ts';
import { openSender, type Sender } from '../../webhooks/sender.ts';
import { DeliverySlots } from './delivery-slots.ts';

/** What a worker process sends webhooks with. */
export interface Webhooks {
  sender: Sender;
  slots: DeliverySlots;
  /** Undefined if the installation has no key: then webhooks wait. */
  box: SecretBox | undefined;
}

export const openWebhooks = (config: Config): Webhooks => ({
  sender: openSender(config),
  slots: new DeliverySlots(config.WEBHOOK_DELIVERIES),
  box: config.WEBHOOK_SECRET_KEY === undefined ? undefined : new SecretBox(config.WEBHOOK_SECRET_KEY),
});
