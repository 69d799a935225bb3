import { Type, type Static } from '@sinclair/typebox';
import type { Actor } from '../audit.ts';
import { Enum, Instant, Nullable, Strict, success, Uuid } from './wire.ts';

/** Hours after which nobody can approve a call any more. */
export const approvalHours = 72;

/** Days for which decided and lapsed ones are kept. */
export const approvalDays = 30;

/** Calls of one key that may wait at the same time. */
export const maxPendingApprovals = 100;

const Most = (description: string) => Nullable(Type.Integer({ minimum: 0, maximum: 1_000_000_000, description }));

/** What one call of a key may do without an approval. */
export const ApproveOver = Type.Object(
  {
    credits: Most('Credits that one call may cost at most. Null: any number.'),
    records: Most('Records that one call may write. Null: any number.'),
  },
  {
    title: 'ApproveOver',
    description:
      'What one call of the key may cost or write without the approval of an admin: starts of jobs and imports, merges, ' +
      'undos and batches. A call above it is answered with 202, and runs when an admin approves it.',
  },
);
export type ApproveOver = Static<typeof ApproveOver>;

export const anySize: ApproveOver = { credits: null, records: null };

export const ApproveOverChange = Type.Partial(Strict(ApproveOver.properties), {
  additionalProperties: false,
  description: `${ApproveOver.description} What is not named stays; for a new key it is null.`,
  examples: [{ credits: 100, records: 500 }],
});
export type ApproveOverChange = Static<typeof ApproveOverChange>;

/** What a call costs at most, and how many records it writes. */
export interface Size {
  credits: number;
  records: number;
}

/** A call of a key as it was sent, a POST. */
export interface Call extends Size {
  apiKeyId: string;
  /** Path and query. */
  url: string;
  body: Buffer;
}

/** A call that an admin approves: the service sends it again, as the key's. */
export interface ApprovedCall extends Call {
  customerId: string;
  id: string;
  /** Whom the audit log names. */
  by: Actor;
}

/** The response to a call that waits. */
export const ApprovalNeeded = Type.Object(
  {
    approval: Type.Object(
      {
        id: Uuid('Ask `GET /api/ext/approval/{id}` what became of it.'),
        url: Type.String({ description: 'The page on which an admin approves it.' }),
      },
      { description: 'The call that waits.' },
    ),
  },
  {
    title: 'ApprovalNeeded',
    description: 'Nothing was written or reserved: the call waits for the approval of an admin.',
  },
);

const approvalStatuses = ['pending', 'approved', 'refused', 'lapsed'] as const;

export const Approval = Type.Object(
  {
    id: Uuid('Id of the approval.'),
    api_key_id: Uuid('The key that sent the call.'),
    url: Type.String({
      description: 'Path and query of the call, a POST.',
      examples: ['/api/ext/contacts/batch/update'],
    }),
    credits: Type.Integer({ description: 'Credits that it would cost at most.' }),
    records: Type.Integer({ description: 'Records that it would write.' }),
    status: Enum(
      approvalStatuses,
      `\`pending\`: it waits; \`approved\`: it ran, once; \`refused\`; \`lapsed\`: nobody decided within ${approvalHours} hours.`,
    ),
    created_at: Instant('When the key sent it.'),
    decided_at: Nullable(Instant('When it was approved or refused. Null: it was not.')),
    decided_by: Nullable(Type.String({ description: 'E-mail address of the admin who decided. Null: nobody has.' })),
    answer: Type.Unknown({ description: 'The response to the call, when it ran; else null.' }),
  },
  { title: 'Approval', description: 'A call of an API key that needs the approval of an admin.' },
);
export type Approval = Static<typeof Approval>;

/** Without the answer, which can be large. */
export const ListedApproval = Type.Omit(Approval, ['answer'], { title: 'ListedApproval' });
export type ListedApproval = Static<typeof ListedApproval>;

export const ApprovalDecision = Strict(
  { approve: Type.Boolean({ description: 'True: the call runs, once, as it was sent. False: it never does.' }) },
  { title: 'ApprovalDecision', examples: [{ approve: true }] },
);

export const DecidedApproval = Type.Object({ ...success, data: Approval }, { title: 'DecidedApproval' });
