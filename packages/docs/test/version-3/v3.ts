/** v3: the envelope of v1; products have other fields. */
import { v1 } from '@resource-api/api/versions'
import { mapResources, type ResourceMapping } from '@resource-api/resources/versions'
import { type Static, Type } from '@sinclair/typebox'
import { Product, ProductCreate } from '../../../testing/helpers/shop.ts'

const { sku: code, name: title, stock: _, ...others } = ProductCreate.properties
const fields = { code, title, ...others }
const label = Type.String({ description: 'Code and title', examples: ['TEA-001 Green tea'] })
const { id, created_at, updated_at } = Product.properties

export const products: ResourceMapping = {
  schemas: {
    read: Type.Object(
      { id, ...fields, label, created_at, updated_at },
      { title: 'Product', description: 'Goods that can be ordered' },
    ),
    create: Type.Object(fields),
    change: Type.Object(fields),
  },
  sources: { code: ['sku'], title: ['name'], label: ['sku', 'name'] },
  lacking: ['stock'],
  toVersion: ({ sku, name, stock: _, ...rest }: Partial<Static<typeof Product>>) => ({
    ...rest,
    code: sku,
    title: name,
    label: sku === undefined || name === undefined ? undefined : `${sku} ${name}`,
  }),
  toCollection: ({ code, title, ...rest }) => ({ ...rest, sku: code, name: title }),
}

const about = `${v1.about} Products have a \`title\`, a \`code\` and a \`label\`.`

export const v3 = mapResources({ ...v1, version: 3, about }, { products })
