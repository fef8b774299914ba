/** Pools of names and texts, drawn from faker once: calling faker for every row takes longer than the database. */
import type { Faker } from '@faker-js/faker'

/** The names, addresses and currency of the users of one country. */
export interface Market {
  country: string
  currency: Currency
  locale: string
  zones: readonly string[]
  firstNames: readonly string[]
  lastNames: readonly string[]
  places: readonly Place[]
}

interface Place {
  line1: string
  city: string
  region: string | null
  postal_code: string
}

export type Currency = 'USD' | 'EUR' | 'GBP'
export type Country = 'US' | 'GB' | 'DE' | 'FR'

export interface Pools {
  markets: Readonly<Record<Country, Market>>
  goods: {
    departments: string[]
    adjectives: string[]
    materials: string[]
    things: string[]
    texts: string[]
  }
  titles: readonly string[]
  sentences: readonly string[]
  bios: readonly string[]
}

/** Values per pool: enough that repetitions are rare on one page. */
const POOL_SIZE = 400

/** The countries, each of which has a locale in faker. */
const COUNTRIES = {
  US: {
    currency: 'USD',
    locale: 'en-US',
    zones: ['America/New_York', 'America/Chicago', 'America/Los_Angeles'],
  },
  GB: { currency: 'GBP', locale: 'en-GB', zones: ['Europe/London'] },
  DE: { currency: 'EUR', locale: 'de-DE', zones: ['Europe/Berlin'] },
  FR: { currency: 'EUR', locale: 'fr-FR', zones: ['Europe/Paris'] },
} as const satisfies Record<Country, Pick<Market, 'currency' | 'locale' | 'zones'>>

const createPool = (make: () => string): string[] =>
  Array.from({ length: POOL_SIZE }, () => make().normalize('NFC').trim())

function createMarket(country: Country, faker: Faker): Market {
  return {
    country,
    ...COUNTRIES[country],
    firstNames: createPool(() => faker.person.firstName()),
    lastNames: createPool(() => faker.person.lastName()),
    places: Array.from({ length: POOL_SIZE }, () => ({
      line1: faker.location.streetAddress().normalize('NFC'),
      city: faker.location.city().normalize('NFC'),
      region: country === 'US' ? faker.location.state() : null,
      postal_code: faker.location.zipCode(),
    })),
  }
}

/** Creates the pools of a seed. Faker's locales are imported here because loading them is slow. */
export async function createPools(seed: number): Promise<Pools> {
  const [us, gb, de, fr] = await Promise.all([
    import('@faker-js/faker/locale/en_US'),
    import('@faker-js/faker/locale/en_GB'),
    import('@faker-js/faker/locale/de'),
    import('@faker-js/faker/locale/fr'),
  ])
  const { faker } = us
  for (const locale of [us, gb, de, fr]) locale.faker.seed(seed)
  return {
    markets: {
      US: createMarket('US', us.faker),
      GB: createMarket('GB', gb.faker),
      DE: createMarket('DE', de.faker),
      FR: createMarket('FR', fr.faker),
    },
    goods: {
      departments: createPool(() => faker.commerce.department()),
      adjectives: createPool(() => faker.commerce.productAdjective()),
      materials: createPool(() => faker.commerce.productMaterial()),
      things: createPool(() => faker.commerce.product()),
      texts: createPool(() => faker.commerce.productDescription()),
    },
    titles: createPool(() => faker.company.catchPhrase()),
    sentences: createPool(() => faker.hacker.phrase()),
    bios: createPool(() => faker.person.bio()),
  }
}
