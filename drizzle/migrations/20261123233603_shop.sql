CREATE SEQUENCE "public"."order_numbers" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1;--> statement-breakpoint
CREATE TABLE "order_products" (
	"order_id" uuid NOT NULL,
	"product_id" uuid NOT NULL,
	CONSTRAINT "order_products_order_id_product_id_pk" PRIMARY KEY("order_id","product_id")
);
--> statement-breakpoint
CREATE TABLE "orders" (
	"id" uuid PRIMARY KEY NOT NULL,
	"created_at" timestamp(6) with time zone DEFAULT now() NOT NULL,
	"updated_at" timestamp(6) with time zone DEFAULT now() NOT NULL,
	"revision" bigint DEFAULT 1 NOT NULL,
	"number" text COLLATE "C" DEFAULT ('ORD-'::text || lpad((nextval('order_numbers'::regclass))::text, 10, '0'::text)) NOT NULL,
	"user_id" uuid NOT NULL,
	"items" jsonb NOT NULL,
	"currency" text COLLATE "C" NOT NULL,
	"total_amount" bigint NOT NULL,
	"shipping_address" jsonb,
	"note" text COLLATE "C",
	"status" text COLLATE "C" DEFAULT 'pending' NOT NULL,
	"search" text COLLATE "C" DEFAULT '' NOT NULL
);
--> statement-breakpoint
CREATE TABLE "posts" (
	"id" uuid PRIMARY KEY NOT NULL,
	"created_at" timestamp(6) with time zone DEFAULT now() NOT NULL,
	"updated_at" timestamp(6) with time zone DEFAULT now() NOT NULL,
	"revision" bigint DEFAULT 1 NOT NULL,
	"user_id" uuid NOT NULL,
	"title" text COLLATE "C" NOT NULL,
	"body" text COLLATE "C" NOT NULL,
	"status" text COLLATE "C" DEFAULT 'draft' NOT NULL,
	"published_at" timestamp(6) with time zone,
	"search" text COLLATE "C" DEFAULT '' NOT NULL
);
--> statement-breakpoint
CREATE TABLE "products" (
	"id" uuid PRIMARY KEY NOT NULL,
	"created_at" timestamp(6) with time zone DEFAULT now() NOT NULL,
	"updated_at" timestamp(6) with time zone DEFAULT now() NOT NULL,
	"revision" bigint DEFAULT 1 NOT NULL,
	"sku" text COLLATE "C" NOT NULL,
	"name" text COLLATE "C" NOT NULL,
	"description" text COLLATE "C",
	"price_amount" bigint NOT NULL,
	"currency" text COLLATE "C" DEFAULT 'USD' NOT NULL,
	"stock" bigint DEFAULT 0 NOT NULL,
	"status" text COLLATE "C" DEFAULT 'draft' NOT NULL,
	"search" text COLLATE "C" DEFAULT '' NOT NULL,
	CONSTRAINT "products_stock_not_negative" CHECK ("products"."stock" >= 0)
);
--> statement-breakpoint
ALTER TABLE "order_products" ADD CONSTRAINT "order_products_order_id_orders_id_fk" FOREIGN KEY ("order_id") REFERENCES "public"."orders"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "order_products" ADD CONSTRAINT "order_products_product_id_products_id_fk" FOREIGN KEY ("product_id") REFERENCES "public"."products"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "orders" ADD CONSTRAINT "orders_user_id_users_id_fk" FOREIGN KEY ("user_id") REFERENCES "public"."users"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "posts" ADD CONSTRAINT "posts_user_id_users_id_fk" FOREIGN KEY ("user_id") REFERENCES "public"."users"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "order_products_product_id" ON "order_products" USING btree ("product_id");--> statement-breakpoint
CREATE UNIQUE INDEX "orders_number_unique" ON "orders" USING btree ("number");--> statement-breakpoint
CREATE INDEX "orders_created_at" ON "orders" USING btree ("created_at","id");--> statement-breakpoint
CREATE INDEX "orders_updated_at" ON "orders" USING btree ("updated_at","id");--> statement-breakpoint
CREATE INDEX "orders_total_amount" ON "orders" USING btree ("total_amount","id");--> statement-breakpoint
CREATE INDEX "orders_status" ON "orders" USING btree ("status","created_at","id");--> statement-breakpoint
CREATE INDEX "orders_user_id" ON "orders" USING btree ("user_id","created_at","id");--> statement-breakpoint
CREATE INDEX "orders_search" ON "orders" USING gin ("search" gin_trgm_ops);--> statement-breakpoint
CREATE INDEX "posts_created_at" ON "posts" USING btree ("user_id","created_at","id");--> statement-breakpoint
CREATE INDEX "posts_updated_at" ON "posts" USING btree ("user_id","updated_at","id");--> statement-breakpoint
CREATE INDEX "posts_title" ON "posts" USING btree ("user_id","title","id");--> statement-breakpoint
CREATE INDEX "posts_published_at_asc" ON "posts" USING btree ("user_id",(coalesce("published_at", 'infinity'::timestamptz)),"id");--> statement-breakpoint
CREATE INDEX "posts_published_at_desc" ON "posts" USING btree ("user_id",(coalesce("published_at", '-infinity'::timestamptz)),"id");--> statement-breakpoint
CREATE INDEX "posts_status" ON "posts" USING btree ("user_id","status","created_at","id");--> statement-breakpoint
CREATE UNIQUE INDEX "products_sku_unique" ON "products" USING btree ("sku");--> statement-breakpoint
CREATE INDEX "products_created_at" ON "products" USING btree ("created_at","id");--> statement-breakpoint
CREATE INDEX "products_name" ON "products" USING btree ("name","id");--> statement-breakpoint
CREATE INDEX "products_price_amount" ON "products" USING btree ("price_amount","id");--> statement-breakpoint
CREATE INDEX "products_status" ON "products" USING btree ("status","created_at","id");--> statement-breakpoint
CREATE INDEX "products_currency" ON "products" USING btree ("currency","created_at","id");--> statement-breakpoint
CREATE INDEX "products_sku_prefix" ON "products" USING btree (left(split_part("search", chr(10), 1), 300));--> statement-breakpoint
CREATE INDEX "products_name_prefix" ON "products" USING btree (left(split_part("search", chr(10), 2), 300));--> statement-breakpoint
CREATE INDEX "products_search" ON "products" USING gin ("search" gin_trgm_ops);