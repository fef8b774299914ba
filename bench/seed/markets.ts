/** The names and addresses that demo rows are made of. All are in normalization form NFC, as the API stores them. */

const split = (text: string): string[] => text.split(', ')

const parseCities = (text: string) =>
  split(text).map((entry) => {
    const [city = '', postal_code = '', region = null] = entry.split('|')
    return { city, postal_code, region }
  })

/** The names, addresses and currency of the users of each country. `#` stands for the number of the house. */
export const markets = {
  US: {
    country: 'US',
    currency: 'USD',
    locale: 'en-US',
    zone: 'America/New_York',
    firstNames: split(
      'James, Mary, Robert, Patricia, Carlos, Maria, Luis, Aaliyah, Brian, Emily, Kevin, Karen',
    ),
    lastNames: split("Smith, Johnson, Brown, Garcia, Miller, Rodriguez, Lee, Clark, Walker, Nguyen, O'Neal"),
    streets: split('# Main Street, # Oak Avenue, # Maple Street, # Park Avenue, # Cedar Lane'),
    cities: parseCities('New York|10001|New York, Chicago|60614|Illinois, Portland|97205|Oregon'),
  },
  GB: {
    country: 'GB',
    currency: 'GBP',
    locale: 'en-GB',
    zone: 'Europe/London',
    firstNames: split('Oliver, Olivia, George, Amelia, Harry, Isla, Noah, Ava, Jack, Emily, Leo, Freya'),
    lastNames: split('Smith, Jones, Taylor, Brown, Williams, Wilson, Johnson, Davies, Patel, Robinson'),
    streets: split('# High Street, # Station Road, # Church Lane, # Victoria Road, # Mill Lane'),
    cities: parseCities('London|SW1Y 4JH, Manchester|M1 4BT, Leeds|LS1 4DY, Bristol|BS1 5TR'),
  },
  DE: {
    country: 'DE',
    currency: 'EUR',
    locale: 'de-DE',
    zone: 'Europe/Berlin',
    firstNames: split('Lukas, Anna, Jürgen, Sabine, Finn, Emma, Jonas, Mia, Stefan, Petra, Björn, Zoë'),
    lastNames: split('Müller, Schmidt, Schneider, Fischer, Weber, Meyer, Wagner, Becker, Schulz, Hoffmann'),
    streets: split('Hauptstraße #, Bahnhofstraße #, Gartenweg #, Schulstraße #, Lindenallee #'),
    cities: parseCities('Berlin|10115, München|80331, Köln|50667, Hamburg|20095, Leipzig|04109'),
  },
  FR: {
    country: 'FR',
    currency: 'EUR',
    locale: 'fr-FR',
    zone: 'Europe/Paris',
    firstNames: split('Gabriel, Jade, Léo, Louise, Raphaël, Chloé, Hugo, Inès, Éloïse, Mathéo, Lucas'),
    lastNames: split('Martin, Bernard, Dubois, Thomas, Robert, Richard, Petit, Durand, Leroy, Moreau'),
    streets: split('# rue de la Paix, # avenue de la République, # rue des Écoles, # place du Marché'),
    cities: parseCities('Paris|75011, Lyon|69002, Marseille|13001, Toulouse|31000, Nantes|44000'),
  },
} as const

export type Market = (typeof markets)[keyof typeof markets]
