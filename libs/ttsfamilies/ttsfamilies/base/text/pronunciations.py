"""Words that dictionaries of English lack or give in an English way, in this frontend's phones.

Accents are gone when the lexicon is asked, and tell most of them from no other word. Those that
they do tell from another are read as the word beside them.
"""

from typing import Final

from ttsfamilies.base.text.tables import table

ACCENTED: Final = table(
    """
    pâté: patay, rosé: rozay, exposé: expozay, exposés: expozays, lamé: lamay, maté: matay,
    olé: olay, saké: sakay, piqué: peekay, risqué: riskay, divorcé: divorsay, divorcée: divorsay,
    attaché: attashay, canapé: canapay, canapés: canapays, touché: tooshay, outré: ootray,
    coupé: coopay, señor: senyor, señora: senyora, piñata: pinyata, jalapeño: halapenyo,
    jalapeños: halapenyos, façade: fasahd, soupçon: soopsohn, garçon: garsohn, père: pair
    """
)
"""Accented words in small letters, and what is read for them."""
PHONES: Final = table(
    """
    beyonce: b iy0 y aa1 n s ey0, mbappe: eh0 m b ae1 p ey0, kylian: k ih1 l iy0 ax0 n,
    deja: d ey0 zh aa1, timothee: t ih1 m ax0 th iy0, chalamet: sh ae1 l ax0 m ey0, xi: sh iy1,
    goethe: g er1 t ax0, readme: r iy1 d m iy0, patay: p aa0 t ey1, rozay: r ow0 z ey1,
    expozay: eh0 k s p ow0 z ey1, expozays: eh0 k s p ow0 z ey1 z, lamay: l aa0 m ey1,
    matay: m aa1 t ey0, sakay: s aa1 k iy0, peekay: p iy0 k ey1, riskay: r ih0 s k ey1,
    divorsay: d ih0 v ao0 r s ey1, attashay: ae0 t ax0 sh ey1, canapay: k ae1 n ax0 p ey0,
    canapays: k ae1 n ax0 p ey0 z, tooshay: t uw0 sh ey1, ootray: uw0 t r ey1, coopay: k uw0 p ey1,
    senyor: s ey0 n y ao1 r, senyora: s ey0 n y ao1 r ax0, pinyata: p ih0 n y aa1 t ax0,
    halapenyo: hh aa0 l ax0 p ey1 n y ow0, halapenyos: hh aa0 l ax0 p ey1 n y ow0 z,
    fasahd: f ax0 s aa1 d, soopsohn: s uw0 p s ao1 n, garsohn: g aa0 r s ao1 n, xai: z ay1,
    rezumays: r eh1 z ax0 m ey0 z, fiancee: f iy0 aa1 n s ey0, creme: k r eh1 m,
    brulee: b r uw0 l ey1, souffle: s uw0 f l ey1, paulo: p aw1 l ow0, jose: hh ow0 z ey1,
    zurich: z uh1 r ih0 k, camus: k ae0 m uw1, proust: p r uw1 s t, bjork: b y er1 k,
    ngozi: eh0 ng g ow1 z iy0
    """
)
"""Phones with stress digits, by words in small letters without accents."""
