"""Everyday sentences of 3 to 60 words, written for this bench."""

from __future__ import annotations

from antiphon_bench.config import TextSet

SHORT = (
    "I'm almost there.",
    "Your table is ready.",
    "Turn left after the bridge.",
    "The kettle has just boiled.",
    "Could you say that again?",
    "Your package arrives on Tuesday.",
    "That was the last train tonight.",
    "Sorry, we are closed on Mondays.",
    "Nobody told me it was raining.",
    "Please hold the door for her.",
    "Let's meet at half past six.",
    "The milk is in the fridge.",
    "He forgot his keys once more.",
    "What a lovely garden you have!",
    "Dinner will be ready in ten minutes.",
    "She called twice while you were out.",
)

MEDIUM = (
    "I have moved your appointment with the dentist to Thursday at a quarter past nine.",
    "The next bus leaves from the stop across the road in about four minutes.",
    "If you add a pinch of salt to the water, the pasta tastes much better.",
    "There is a small bakery on the corner that sells the best bread in town.",
    "We looked everywhere for the cat, and she was asleep in the laundry basket.",
    "Your parcel could not be delivered today because nobody was at home to sign for it.",
    "My grandmother still writes a letter to each of her children on the first of the month.",
    "The lights went out just as the film was getting interesting, so we told stories instead.",
    "It will be cloudy in the morning, but the sun should come through in the afternoon.",
    "You can leave your bicycle in the yard, as long as you remember to lock it.",
    "After the storm the whole street smelled of wet leaves and broken branches.",
    "The library is open until eight on weekdays and until noon on Saturdays.",
    "She read the first page three times before she noticed that the book was upside down.",
    "Would you like me to read your new messages now, or remind you later this evening?",
)

LONG = (
    "When the ferry finally came round the headland, everybody on the pier picked up their bags, "
    "called their children, and walked down the steps, although it would be another quarter of an "
    "hour before the crew had tied the ropes and opened the gate.",
    "Your flight to Lisbon has been delayed by fifty minutes because of fog, so there is time for "
    "a coffee, but please be at gate twelve by half past ten, since boarding will begin as soon as "
    "the aircraft has been cleaned.",
    "My neighbour repairs old radios in his kitchen, and on warm evenings, when all the windows "
    "are open, you can hear him trying one station after another, a few words of news, a few bars "
    "of a waltz, until something clicks and the whole courtyard is filled with music.",
    "To reset the heating, first switch it off at the wall and wait for a minute, then hold the "
    "round button until the small light blinks twice, let go, and turn the dial slowly to the "
    "right until the number on the display matches the one on your card.",
    "We had planned to walk to the lake, eat our sandwiches under the big oak, and be home before "
    "dark, but the path was flooded, the sandwiches were still on the kitchen table, and in the "
    "end we spent a very happy afternoon in a barn with eleven goats.",
    "Thank you for waiting. I have found your booking, two nights in a room with a view of the "
    "harbour, breakfast included, and I can confirm that the late arrival is not a problem, as "
    "there will be somebody at the desk until one in the morning.",
    "The recipe says to let the dough rest for an hour, yet my aunt, who has baked every Saturday "
    "for forty years, swears that it needs the whole night, a cold room, and a clean cloth that "
    "nobody is allowed to lift, however curious they may be.",
    "Although the museum is small, give yourself at least two hours, because the guide, a retired "
    "captain with a remarkable memory, likes to tell how every single model ship came into the "
    "collection, who built it, how long it took, and which of the tiny sails were sewn from the "
    "handkerchiefs of people he had known.",
)

_SETS: dict[TextSet, tuple[str, ...]] = {
    "short": SHORT,
    "medium": MEDIUM,
    "long": LONG,
    "mixed": SHORT + MEDIUM + LONG,
}


def sentences(name: TextSet) -> tuple[str, ...]:
    """The texts of a set."""
    return _SETS[name]
