import { describe, expect, test } from 'vitest';
import { externalName } from '../../src/text/fold.ts';

/** Real companies by country: the name as registers have it, and the name by which people know the company. */
const companies: Record<string, [registered: string, known: string][]> = {
  Germany: [
    ['SAP SE', 'sap'],
    ['Siemens Aktiengesellschaft', 'siemens'],
    ['Robert Bosch GmbH', 'robert bosch'],
    ['ALDI Einkauf SE & Co. oHG', 'aldi einkauf'],
    ['Lidl Stiftung & Co. KG', 'lidl stiftung'],
    ['Merck KGaA', 'merck'],
    ['Dr. Ing. h.c. F. Porsche AG', 'dr ing hc f porsche'],
    ['Müller Holding GmbH & Co. KG', 'muller holding'],
    ['Rossmann Gesellschaft mit beschränkter Haftung', 'rossmann'],
    ['Bertelsmann SE & Co. KGaA', 'bertelsmann'],
  ],
  'United States': [
    ['Apple Inc.', 'apple'],
    ['Alphabet, Inc', 'alphabet'],
    ['JPMorgan Chase & Co.', 'jpmorgan chase'],
    ['The Coca-Cola Company', 'the coca cola'],
    ['Exxon Mobil Corporation', 'exxon mobil'],
    ['Bloomberg L.P.', 'bloomberg'],
    ['Space Exploration Technologies Corp.', 'space exploration technologies'],
    ["Lowe's Companies, Inc.", 'lowes companies'],
    ['Koch Industries, L.L.C.', 'koch industries'],
    ['AT&T Inc.', 'at t'],
  ],
  'United Kingdom': [
    ['Tesco PLC', 'tesco'],
    ['BP p.l.c.', 'bp'],
    ['J Sainsbury plc', 'j sainsbury'],
    ['Dyson Limited', 'dyson'],
    ['Ernst & Young LLP', 'ernst young'],
    ['Marks and Spencer Group P.L.C.', 'marks and spencer group'],
    ['Rolls-Royce Holdings plc', 'rolls royce holdings'],
    ['John Lewis PLC.', 'john lewis'],
    ['Arm Ltd', 'arm'],
    ['Monzo Bank Ltd.', 'monzo bank'],
  ],
  France: [
    ["L'Oréal S.A.", 'loreal'],
    ['Danone SA', 'danone'],
    ['Michelin SCA', 'michelin'],
    ['Doctolib SAS', 'doctolib'],
    ['Leroy Merlin France S.A.S.', 'leroy merlin france'],
    ['BlaBlaCar S. A.', 'blablacar'],
    ['Boulangerie Dupont SARL', 'boulangerie dupont'],
    ['Lazard Frères et Cie', 'lazard freres'],
    ['Crédit Agricole Société Anonyme', 'credit agricole'],
    ['Qonto (Olinda) SASU', 'qonto olinda'],
  ],
  Spain: [
    ['Inditex, S.A.', 'inditex'],
    ['Mercadona S.A.', 'mercadona'],
    ['Glovoapp23, S.L.', 'glovoapp23'],
    ['Telefónica S.A.U.', 'telefonica'],
    ['El Corte Inglés, S. A.', 'el corte ingles'],
    ['Cabify España S.L.U.', 'cabify espana'],
    ['Repsol Sociedad Anónima', 'repsol'],
    ['Mango SL', 'mango'],
    ['Cuatrecasas S.L.P.', 'cuatrecasas'],
    ['Banco Santander, S.A.', 'banco santander'],
  ],
  Italy: [
    ['Eni S.p.A.', 'eni'],
    ['Ferrari N.V.', 'ferrari'],
    ['Luxottica Group S.p.A', 'luxottica group'],
    ['Barilla G. e R. Fratelli S. p. A.', 'barilla g e r fratelli'],
    ['Satispay S.r.l.', 'satispay'],
    ['Esselunga SPA', 'esselunga'],
    ['Bending Spoons Società per Azioni', 'bending spoons'],
    ['Trattoria da Gino S.n.c.', 'trattoria da gino'],
    ['Illycaffè s.p.a.', 'illycaffe'],
    ['Moleskine Srl', 'moleskine'],
  ],
  Netherlands: [
    ['ASML Holding N.V.', 'asml holding'],
    ['Booking.com B.V.', 'bookingcom'],
    ['Koninklijke Philips NV', 'koninklijke philips'],
    ['Adyen N. V.', 'adyen'],
    ['Heineken B.V.', 'heineken'],
    ['Jumbo Supermarkten B.V.', 'jumbo supermarkten'],
    ['Van Dijk & Zn. VOF', 'van dijk zn'],
    ['TomTom International BV', 'tomtom international'],
    ['Randstad N.V.', 'randstad'],
    ['IKEA Holding C.V.', 'ikea holding'],
  ],
  Sweden: [
    ['AB Volvo (publ)', 'ab volvo'],
    ['H & M Hennes & Mauritz AB', 'h m hennes mauritz'],
    ['Spotify AB', 'spotify'],
    ['Telefonaktiebolaget LM Ericsson', 'telefonaktiebolaget lm ericsson'],
    ['Aktiebolaget SKF', 'skf'],
    ['Klarna Bank AB (publ)', 'klarna bank'],
    ['Skandinaviska Enskilda Banken AB', 'skandinaviska enskilda banken'],
    ['Vattenfall Aktiebolag', 'vattenfall'],
    ['Ingka Holding AB', 'ingka holding'],
    ['Bröderna Andersson HB', 'broderna andersson'],
  ],
  Poland: [
    ['Orlen S.A.', 'orlen'],
    ['Allegro sp. z o.o.', 'allegro'],
    ['CD Projekt Spółka Akcyjna', 'cd projekt'],
    ['InPost Sp. z o. o.', 'inpost'],
    ['Żabka Polska sp. z o.o.', 'zabka polska'],
    ['Maspex spółka z ograniczoną odpowiedzialnością', 'maspex'],
    ['Dino Polska SA', 'dino polska'],
    ['Kowalski Sp. J.', 'kowalski'],
    ['Grupa LOTOS S. A.', 'grupa lotos'],
    ['LPP Sp.k.', 'lpp'],
  ],
  Japan: [
    ['トヨタ自動車株式会社', 'トヨタ自動車'],
    ['株式会社日立製作所', '日立製作所'],
    ['(株)ニトリ', 'ニトリ'],
    ['㈱イトーヨーカ堂', 'イトーヨーカ堂'],
    ['Sony Group Corporation', 'sony group'],
    ['Nintendo Co., Ltd.', 'nintendo'],
    ['Rakuten K.K.', 'rakuten'],
    ['メルカリ株式会社', 'メルカリ'],
    ['任天堂株式会社', '任天堂'],
    ['Fast Retailing Co Ltd', 'fast retailing'],
  ],
};

describe('the external name of a company', () => {
  test('a hundred companies of ten countries lose their legal form and punctuation, and nothing else', () => {
    const all = Object.values(companies).flat();
    expect(all).toHaveLength(100);
    // Folding splits the marks of katakana, so these names are compared in the same form.
    const expected = all.map(([registered, known]) => [
      registered,
      /^[ -~]*$/.test(known) ? known : externalName(known),
    ]);
    expect(all.map(([registered]) => [registered, externalName(registered)])).toEqual(expected);
  });

  test('forms in front, in brackets and one after the other are recognised', () => {
    expect(externalName('ООО «Ромашка»')).toBe(externalName('Ромашка'));
    expect(externalName('PT Astra International Tbk')).toBe('astra international');
    expect(externalName('Cemex, S.A.B. de C.V.')).toBe('cemex');
    expect(externalName('Femsa S. de R.L. de C.V.')).toBe('femsa');
    expect(externalName('삼성전자 주식회사')).toBe(externalName('삼성전자'));
    expect(externalName('华为技术有限公司')).toBe(externalName('华为技术'));
  });

  test('a name that is nothing but a legal form stays, and one without letters is empty', () => {
    expect([externalName('Limited'), externalName('Co. Ltd.'), externalName('—'), externalName('')]).toEqual([
      'limited',
      'co',
      '',
      '',
    ]);
  });
});
