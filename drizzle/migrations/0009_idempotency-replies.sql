CREATE TABLE "idempotency_replies" (
	"user_id" uuid NOT NULL,
	"id" text COLLATE "C" NOT NULL,
	"body" text COLLATE "C" NOT NULL,
	"last_used_at" timestamp(6) with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "idempotency_replies_user_id_id_pk" PRIMARY KEY("user_id","id")
);
--> statement-breakpoint
DROP INDEX "posts_search";--> statement-breakpoint
ALTER TABLE "idempotency_keys" ALTER COLUMN "body" DROP NOT NULL;--> statement-breakpoint
ALTER TABLE "idempotency_keys" ADD COLUMN "reply_id" text COLLATE "C";--> statement-breakpoint
ALTER TABLE "idempotency_keys" ADD COLUMN "reply_timestamp" text COLLATE "C";--> statement-breakpoint
ALTER TABLE "idempotency_replies" ADD CONSTRAINT "idempotency_replies_user_id_users_id_fk" FOREIGN KEY ("user_id") REFERENCES "public"."users"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "idempotency_replies_last_used_at" ON "idempotency_replies" USING btree ("last_used_at");