CREATE TABLE "idempotency_keys" (
	"user_id" uuid NOT NULL,
	"id" text COLLATE "C" NOT NULL,
	"body_hash" text COLLATE "C" NOT NULL,
	"status" smallint NOT NULL,
	"location" text COLLATE "C",
	"etag" text COLLATE "C" NOT NULL,
	"body" text COLLATE "C" NOT NULL,
	"created_at" timestamp(6) with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "idempotency_keys_user_id_id_pk" PRIMARY KEY("user_id","id")
);
--> statement-breakpoint
ALTER TABLE "idempotency_keys" ADD CONSTRAINT "idempotency_keys_user_id_users_id_fk" FOREIGN KEY ("user_id") REFERENCES "public"."users"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "idempotency_keys_created_at" ON "idempotency_keys" USING btree ("created_at");