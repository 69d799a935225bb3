import type { FastifyInstance } from 'fastify';
import { listEvents } from '../../queries/accounts/audit.ts';
import { listUsers } from '../../queries/accounts/users.ts';
import type { AuditEvent, AuditEventName } from '../../schemas/audit.ts';
import { forAdmins, sendPage } from '../base/layout.ts';
import { numberedPager, pageNumberOf } from '../base/forms.ts';
import { empty, html, moment, table } from '../base/html.ts';

const section = '/app/audit';
const pageEvents = 100;
const maxPages = 10;

export async function audit(app: FastifyInstance): Promise<void> {
  app.get('/audit', forAdmins, async (request, reply) => {
    const page = Math.min(pageNumberOf(request), maxPages);
    const { db, caller } = request;
    const [newest, users] = await Promise.all([
      db.search((sql) => listEvents(sql, caller.customerId, page * pageEvents)),
      db.lookup((sql) => listUsers(sql, caller.customerId)),
    ]);
    const events = newest.slice((page - 1) * pageEvents);
    const body = html`<p class="lead">Who did what with keys, users and webhooks, from which address. Newest first.</p>
      !${table(
        'Audit log',
        [
          ['When', (one) => moment(one.created_at)],
          ['What', (one) => labels[one.event]],
          ['Whom', (one) => html`${users.find(({ id }) => id === one.user_id)?.email ?? '–'}`],
          ['By', (one) => html`${one.actor}`],
          ['From', (one) => html`${one.address ?? '–'}`, 'mono'],
          ['Details', (one) => html`${detailsOf(one.details)}`],
        ],
        events,
        empty('Nothing yet', 'Logins and changes of keys and users are listed here.', '', 'clock'),
      )}
      !${numberedPager(page, events.length === pageEvents && page < maxPages, (number) => `${section}?page=${number}`)}`;
    return sendPage(request, reply, { title: 'Audit log', body });
  });
}

const labels: Record<AuditEventName, string> = {
  'api_key.generated': 'Key issued',
  'api_key.rotated': 'Key rotated',
  'api_key.revoked': 'Key revoked',
  'api_key.spend_caps_changed': 'Limits of a key changed',
  'approval.approved': 'Call of a key approved',
  'approval.refused': 'Call of a key refused',
  'user.created': 'User created',
  'user.deactivated': 'User deactivated',
  'user.role_changed': 'Role changed',
  'user.link_issued': 'Link for a password issued',
  'user.logged_in': 'Logged in',
  'user.login_failed': 'Login failed',
  'user.logged_out': 'Logged out',
  'user.password_changed': 'Password changed',
  'user.password_change_failed': 'Password not changed',
  'user.password_reset': 'Password reset',
  'user.password_set': 'Password set by a link',
  'customer.created': 'Customer created',
  'customer.suspended': 'Customer suspended',
  'customer.resumed': 'Customer resumed',
  'webhook.created': 'Webhook created',
  'webhook.changed': 'Webhook changed',
  'webhook.rotated': 'Webhook secret rotated',
  'webhook.deleted': 'Webhook deleted',
  'webhook.disabled': 'Webhook disabled',
  'field.declared': 'Field declared',
  'field.removed': 'Declaration of a field removed',
};

const detailsOf = (details: AuditEvent['details']): string =>
  Object.entries(details)
    .map(([name, value]) => `${name.replaceAll('_', ' ')}: ${value}`)
    .join('; ');
