"""Small scenes of everyday chat, which dialogues about events open with or come back to.

They say nothing that a question is about. All are written for this generator.
"""

import re

_SCENES = """
You look exhausted. Is everything all right?
I hardly slept. The people upstairs were moving furniture until two o'clock.
That's terrible. Have you talked to them about it?
Twice already. They always apologize, and then it happens again.

I've finally decided to learn how to cook properly.
Good for you! What have you tried so far?
Only soup. It was much too salty, but nobody complained.
Nobody complained because everybody is afraid of you.

Guess what I found at the flea market this weekend.
Please don't tell me it's another {old radio|broken clock|wooden duck}.
It was only {three|four|six} euros, and it almost works!
Our shelves are full. Where on earth are you going to put it?

My computer has stopped working again.
Have you tried to switch it off and on?
Of course I have. The screen stays black, and it makes a funny noise.
Then you'd better take it to the repair shop near the station.

I'm thinking about getting a {dog|cat|rabbit}.
Are you sure you have enough time for that?
I work at home most of the time, so it wouldn't be lonely.
Well, I'd be happy to look after it when you travel.

Have you heard? They're going to close the library on our street.
What a shame! I've borrowed books there since I was a child.
Some of the neighbours are collecting signatures against it.
Tell them that I'd like to sign, too.

I went to the new {Thai|Greek|Mexican} restaurant last night.
Oh, how was it? I've been curious about that place.
The food was excellent, but we waited nearly an hour for a table.
In that case I'd rather go there for lunch.

Could I ask you for a favour?
Sure, as long as it doesn't involve heavy boxes.
I only need somebody to water my plants while I'm away.
That's no trouble at all. Just leave me the key.

What a storm that was! Half of our fence is lying in the garden.
Oh no. Did anybody get hurt?
Luckily not, but the neighbours' car has a big dent now.
I hope the insurance pays for that.

I have a terrible headache today.
Maybe you've been staring at the screen for too long.
I suppose so. I've had to finish that report all by myself.
Drink some water and get some fresh air. The report can wait.

You've had your hair cut! It looks great.
Thank you. I was afraid it was a little too short.
Not at all. It makes you look younger.
Then I'll go to the same barber again.

My son doesn't want to go to school any more.
Has something happened there?
He says that the other children laugh at his glasses.
Poor boy. You should speak to his teacher about it.

I've just bought a ticket for the train to {Vienna|Lisbon|Prague}.
Lucky you! I've always wanted to see that city.
It's only for work, but I hope to visit one or two museums.
Bring me a postcard, and don't forget to try the cakes.

Do you know anything about cars?
Not much. Why do you ask?
Mine makes a strange sound whenever I turn left.
That could be expensive. I'd have somebody look at it soon.

I can't decide what to wear to the wedding.
What about the {blue|green|grey} suit that you wore last summer?
I'm afraid it doesn't fit me any longer.
Then you have a good reason to buy a new one.

Did you see who won the match last night?
I fell asleep before it was over. Please tell me.
It went to penalties, and our goalkeeper stopped {two|three} of them.
And I missed that! I'll never forgive myself.

The rent is going up again next year.
By how much this time?
Almost a tenth. At this rate I'll have to move in with my parents.
You could look for something smaller, a bit farther out.

I've started taking {guitar|drawing|swimming} lessons at last.
That's wonderful. Is it as hard as you thought?
My teacher is patient, but I feel like a child again.
Everybody does at first. Just keep practising a little every day.

Somebody stole my bicycle in front of the supermarket.
Are you serious? It was locked, wasn't it?
It was, but they simply cut through the chain.
You should report it to the police, even if it doesn't help.

There's nothing in the fridge but butter and an old lemon.
I meant to go shopping, but I lost track of time.
Never mind. Shall we just order a pizza?
Only if it has plenty of mushrooms on it.

I think I'm allergic to something in this office.
Really? What makes you think so?
My eyes start to itch as soon as I sit down at my desk.
It might be those flowers on the windowsill.

How was your holiday by the sea?
It rained on {five|six|eight} days, but we enjoyed it anyway.
What did you do all day in weather like that?
We played cards, read novels and ate far too much ice cream.

My grandmother has learned to use a smartphone.
That's impressive. How old is she now?
She turned {eighty|ninety} this spring, and she sends me pictures of her lunch.
Mine still writes letters, and I love every one of them.

I got the job! They called me an hour ago.
Congratulations! I never doubted it for a second.
I'm a bit nervous, because I'll have to speak English all day.
You'll get used to it within a week, believe me.

The coffee machine is broken again.
I told them to buy a better one, but nobody listens to me.
I'm going down to the bakery. Would you like anything?
A large cappuccino, please, and something with chocolate.

I've read that people should walk ten thousand steps a day.
I doubt that I even manage half of that.
We could get off the bus one stop earlier from now on.
Let's start when it's a little warmer outside.

Have you finished that novel I lent you?
Not yet. The beginning is so slow that I keep falling asleep.
Be patient. It gets really exciting after the first hundred pages.
All right, I'll give it another chance.

Why is there paint on your shoes?
I've been doing up the kitchen since early this morning.
What colour have you chosen in the end?
A warm {yellow|white|orange}. It looks bigger and brighter than before.

I think I left my umbrella on the bus.
That's the second one this year, isn't it?
The third, to be honest. They ought to give me a discount.
Ask at the lost property office. They're very helpful.

Do you believe in horoscopes?
Not in the least. Do you?
Mine said that I would meet somebody important today.
Well, you've met me, so it must be true.

My phone battery doesn't last longer than {two|three|four} hours.
How old is that thing?
I bought it when I was still at university.
Then it's time to treat yourself to a new one.

The neighbours have complained about my piano playing.
Do you practise late at night?
Never after nine. I suppose they just don't like jazz.
Perhaps you could invite them to dinner and talk about it.

I'm trying to drink less coffee.
How is it going so far?
I've had a headache for two days, and I'm in a foul mood.
I can tell. Have a cup of tea and a biscuit.

We've decided to move to the countryside.
Won't you miss the theatres and the shops?
A little, but our children want to have a garden and chickens.
I'll visit you as soon as the first eggs are there.

I burnt the cake, so I bought one instead.
Nobody will notice if you take it out of the box.
It says "happy birthday" on it, in pink letters.
Then we'd better find somebody whose birthday it is.

Is that a new coat? It suits you.
I found it in a second-hand shop around the corner.
How much did you pay for it, if I may ask?
Less than {twenty|thirty|forty} pounds, and it's as good as new.

I can't get this song out of my head.
Which one do you mean?
The one they play on the radio every single morning.
Thank you very much. Now I can't, either.

There's a spider in the bathroom, and it's enormous.
Leave it alone. It's more afraid than you are.
I won't take a shower before it has moved out.
All right, hand me a glass and a piece of paper.

I've been on hold with the phone company for an hour.
What do you want from them?
They've charged me twice, and their website tells me to call.
Put it on loudspeaker, and let's have lunch in the meantime.

My sister is expecting a baby in the spring.
That's wonderful news! Is it her first?
Her second. The first one keeps asking for a little horse instead.
He'll change his mind when he sees it.

The doctor told me to eat less sugar.
That can't be easy for somebody with your sweet tooth.
I've hidden all the chocolate from myself, but I know where it is.
Give it to me. I'll keep it in a safe place.

I forgot my best friend's birthday.
How did that happen? You never forget such things.
I've been so busy that I don't even know the date.
Send some flowers and a long letter. That always works.

They've painted the old cinema bright {purple|orange|pink}.
I saw it this morning and thought I was dreaming.
Still, I'm glad that somebody is taking care of the building.
As long as they show good films, I don't mind.

How do you like working from home?
I save a lot of time, but I miss talking to people.
I know what you mean. I've begun to talk to my plants.
Do they at least laugh at your jokes?

Everybody in my family has caught a cold.
Then please keep your distance. I can't afford to be ill now.
Don't worry, I'm the only one who feels fine.
You always say that on the day before it starts.

I'd like to give my parents something special for their anniversary.
How long have they been married?
For {thirty|forty|fifty} years, and they still hold hands in the street.
How sweet! What about a weekend in the mountains?

Have you ever been to a fortune teller?
Once, at a fair. She told me that I would become rich.
And did you?
I won {five|ten} pounds in a raffle, if that counts.

This soup tastes different from last time.
I've put some ginger and a little lime juice into it.
It's delicious. You must give me the recipe.
I never write anything down, but you may watch me next time.

I can't find my glasses anywhere.
Have you looked on top of your head?
Very funny. They aren't there, either.
Then try the fridge. That's where you left them last month.

My boss wants me to give a talk in front of {fifty|eighty|two hundred} people.
What is it supposed to be about?
About our new software, which I don't even understand myself.
Tell a few jokes and show lots of pictures.

I've volunteered at the animal shelter since last month.
Isn't it sad to see all those abandoned creatures?
Sometimes, but yesterday a blind old tomcat found a family.
You'll end up adopting half of them, I'm afraid.

We had a power cut in the middle of the film.
At the most thrilling moment, I suppose?
Exactly when the detective was about to name the murderer.
It was the gardener. I've seen that one before.

Our washing machine has flooded the entire basement.
Good heavens! Did you manage to stop the water?
The plumber turned off a valve, but the carpet is ruined.
Take photographs of the damage before you clean up.

I'm collecting ideas for our class reunion.
How about a bonfire by the lake, with some music?
That depends on the weather, and half of us are vegetarians.
Grilled vegetables and a big tent would solve both problems.

My aunt gave me a scarf that she had knitted herself.
How thoughtful! Is it warm enough for this winter?
It's {four|five|six} metres long, so I can wrap up the whole family.
Then nobody will ever lose you in a crowd.

Which language would you choose if you could start again?
Probably Japanese, because I adore their gardens and their poetry.
I'd pick Italian. It sounds as if everyone was singing.
You only want to order pasta without pointing at the menu.

My flight was cancelled at the very last minute.
Did the airline at least offer you a hotel?
They handed out vouchers for sandwiches and then disappeared.
Write them an angry letter and demand your money back.

The kids have built a rocket out of cardboard.
Does it have enough room for me and my tax return?
It has two seats, a steering wheel and a secret biscuit drawer.
Tell the crew that I'm ready for departure.

I sprained my ankle on the stairs this morning.
Ouch! Have you put some ice on it?
A bag of frozen peas, and now it's swollen and blue.
You ought to have it examined, just to be on the safe side.

Have you ever tried to bake your own bread?
Once, and it turned out as heavy as a brick.
The secret is to let the dough rest overnight.
I haven't got the patience. I'd rather support our baker.

The exam was much harder than I had expected.
Which part gave you so much trouble?
The essay about economic growth. I simply ran out of time.
Don't lose heart. The results may surprise you.

A man on the tram offered me his seat today.
That was polite of him, wasn't it?
It made me feel ancient. I'm barely {forty|fifty}!
Perhaps he just liked your hat.

I've subscribed to a box of organic vegetables.
What was inside this time?
A purple cabbage, some mysterious roots and one lonely pear.
Roast everything with olive oil. It never fails.

They want to put up a wind turbine behind our village.
Are people in favour of it?
Opinions are divided. My uncle fears for his view of the hills.
Clean energy is worth a slightly different horizon.

I dreamt that I was late for my own graduation.
I keep dreaming that my teeth fall out. What does it mean?
According to the internet, both of us are under pressure.
For once the internet might have a point.

Could you turn the volume down a little?
Sorry, I didn't realize that you were on the telephone.
It's my accountant. She always whispers when it's about money.
That doesn't sound like good news to me.

We're thinking of painting the hallway with stripes.
Stripes make narrow rooms look even narrower.
What would you suggest instead?
A pale wall, a large mirror and plenty of light.

I won a voucher for a hot-air balloon ride.
Fantastic! Aren't you afraid of heights?
Terribly. I get dizzy when I stand on a chair.
Then sell it to me, and I'll wave to you from above.

The museum has opened an exhibition about ancient Egypt.
Are there any real mummies?
There are {two|three}, and a golden mask that nobody may photograph.
I'd better not take my nephew. He'd have nightmares for weeks.

How long does it take you to get to the office?
Thirty minutes by underground, or twice as long by bicycle.
I used to cycle, until somebody opened a car door in front of me.
That's why I wear a helmet, even if it ruins my hairstyle.

Something smells wonderful in here.
I'm boiling plums with cinnamon to make jam.
May I taste a spoonful before you fill the jars?
Careful, it's still hot enough to burn your tongue.

I've been asked to sing at my cousin's wedding.
What an honour! Have you picked a song yet?
Something slow and romantic that isn't too high for me.
Practise in the shower. The acoustics are unbeatable.

The village football team is looking for a new coach.
Why don't you apply? You know all the rules.
I know them, but teenagers never listen to a word I say.
Bring oranges at half-time. It worked for my trainer.

My grandfather's watch has stopped for good, I'm afraid.
There's an old watchmaker behind the cathedral.
Will he still have spare parts for such an antique?
If he doesn't, he makes them with his own hands.

I cleaned the attic and discovered my school diaries.
Did you read them, or was it too embarrassing?
I laughed until I cried. I was in love with my geography teacher.
Everyone was. She had travelled to the South Pole.

You're limping. Did you run the marathon after all?
Only half of it. Then my left knee began to protest.
I admire you for trying. I can't even catch the bus.
It's all a matter of training and stubbornness.

I'm saving up for an electric scooter.
Aren't they dangerous in heavy traffic?
Not if you stick to the cycle paths and keep your eyes open.
Promise me that you'll buy proper lights as well.

The bakery has raised its prices once more.
A plain croissant costs as much as a whole meal used to.
They blame it on butter, flour and electricity.
I've noticed that the portions have become smaller, too.

I signed up for a first-aid course at the fire station.
I did one ages ago and have forgotten everything.
We practise on dolls, and they never say thank you.
At least they can't complain about broken ribs.

There was a hedgehog on our terrace last night.
How lovely! Did you leave some food outside?
A saucer of cat food. It ate noisily and asked for more.
They need to gain weight before the winter sleep.

What are you knitting there?
It was supposed to be a sock, but it has grown a bit.
It looks more like a sleeping bag for a mouse.
Then I'll pretend that I planned it from the start.

The heating in our flat has been out of order for a week.
That must be miserable. Are you wearing gloves indoors?
Gloves, two pullovers and my late grandfather's fur hat.
Come over to us. We've got a fireplace and spare blankets.

I bumped into our old headmaster at the chemist's.
Did he recognize you after such a long time?
Immediately, and he asked whether my spelling had improved.
I hope you told him that computers correct it nowadays.

My niece wants to become an astronaut.
Last year it was a veterinarian, wasn't it?
And before that a pirate. At least her ambitions are growing.
Let's buy her a telescope before she changes her mind.

I've just returned from the tax office, and I'm furious.
What did they complain about this time?
One signature was missing, so I had to queue all over again.
Bureaucracy has a wonderful sense of humour.

The orchestra needs volunteers for its charity concert.
I play the trumpet, but not very reliably.
They're mainly looking for people who sell programmes and lemonade.
In that case I'm exactly the right candidate.

Our tent leaked, and then a cow ate my sandals.
You're making this up, aren't you?
I have witnesses, and the farmer offered me rubber boots.
Your camping stories get better each summer.

I inherited a sewing machine from a distant aunt.
Does it still run smoothly after so many decades?
Like a dream, although the needle frightens me a little.
Begin with something straightforward, such as a cushion cover.

There's a petition against the noise from the airport.
Are the night flights really that annoying?
Our windows rattle, and the baby wakes up screaming.
I'll sign immediately and forward it to my colleagues.

I've been waiting for a parcel since the beginning of the month.
Have you tracked it on the internet?
It's been travelling back and forth between two warehouses.
By the time it arrives, you'll have forgotten what's inside.
"""
_CHOICE = re.compile(r"{(.*?)}")  # "{two|three}"

# Scenes of successive remarks, each with its reply.
SCENES: tuple[tuple[tuple[str, str], ...], ...] = tuple(
    tuple(zip(lines[::2], lines[1::2], strict=True))
    for lines in (scene.strip().split("\n") for scene in _SCENES.strip().split("\n\n"))
)


def scene_text(text: str, choice: int) -> str:
    """Return a text of a scene with one of the words of each choice that it has.

    >>> scene_text("It's {red|blue}.", 3)
    "It's blue."
    """

    def chosen(match: re.Match[str]) -> str:
        words = match[1].split("|")
        return words[choice % len(words)]

    return _CHOICE.sub(chosen, text)
